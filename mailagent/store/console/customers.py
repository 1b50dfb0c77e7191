"""All that is on record of one customer's address, in lists of one page each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Row

PAGE_LENGTH = 20

_orders, _conversations, _refunds = schema.orders, schema.conversations, schema.refunds
_inbound, _codes, _suppressed = (
    schema.inbound_mails,
    schema.goodwill_codes,
    schema.suppressed_addresses,
)


LISTS = ("conversations", "orders", "refunds", "discounts", "mails")


@dataclass(frozen=True, slots=True)
class Part:
    """One page of a list, the newest first. `more`: whether there are older ones."""

    rows: Sequence[Row]
    number: int
    more: bool


def read_list(connection: sa.Connection, name: str, email: str, number: int) -> Part:
    """Return one page of one of LISTS. The refunds are those of the customer's orders, and those that were
    asked for in their conversations; the mails are those of no conversation, such as automatic answers."""
    order, thread, refund, mail = _orders.c, _conversations.c, _refunds.c, _inbound.c
    orders = sa.select(order.order_id).where(order.customer_email == email)
    threads = sa.select(thread.conversation_id).where(thread.customer_email == email)
    mails = (mail.mail_id, mail.subject, mail.kind, mail.status, mail.no_answer_reason)
    queries: dict[str, tuple[sa.Select[Any], sa.Column[datetime], sa.Column[str]]] = {
        "conversations": (
            sa.select(_conversations).where(thread.customer_email == email),
            thread.last_mail_at,
            thread.conversation_id,
        ),
        "orders": (
            sa.select(_orders).where(order.customer_email == email),
            order.placed_at,
            order.order_id,
        ),
        "refunds": (
            sa.select(_refunds).where(
                sa.or_(refund.order_id.in_(orders), refund.conversation_id.in_(threads))
            ),
            refund.requested_at,
            refund.refund_id,
        ),
        "discounts": (
            sa.select(_codes).where(_codes.c.order_id.in_(orders)),
            _codes.c.issued_at,
            _codes.c.order_id,
        ),
        "mails": (
            sa.select(*mails, mail.received_at).where(
                mail.from_address == email, mail.conversation_id.is_(None)
            ),
            mail.received_at,
            mail.mail_id,
        ),
    }
    query, at, key = queries[name]
    newest_first = query.order_by(at.desc(), key).offset((number - 1) * PAGE_LENGTH)
    rows = connection.execute(newest_first.limit(PAGE_LENGTH + 1)).all()
    return Part(rows[:PAGE_LENGTH], number, len(rows) > PAGE_LENGTH)


def is_known(connection: sa.Connection, email: str) -> bool:
    """Return whether anything is on record of an address."""
    here = (
        _orders.c.customer_email,
        _conversations.c.customer_email,
        _inbound.c.from_address,
        _suppressed.c.address,
    )
    return any(connection.scalar(sa.select(sa.exists().where(column == email))) for column in here)


def find_suppression(connection: sa.Connection, email: str) -> Row | None:
    """Return since when and why nothing is sent to an address; None when mail may go there."""
    query = sa.select(_suppressed).where(_suppressed.c.address == email)
    return connection.execute(query).one_or_none()


def latest_conversation(connection: sa.Connection, email: str) -> str | None:
    """Return the customer's conversation with the latest mail."""
    latest: str | None = connection.scalar(
        sa.select(_conversations.c.conversation_id)
        .where(_conversations.c.customer_email == email)
        .order_by(_conversations.c.last_mail_at.desc())
        .limit(1)
    )
    return latest
