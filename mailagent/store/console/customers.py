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


@dataclass(frozen=True, slots=True)
class Part:
    """One page of a list, the newest first. `more`: whether there are older ones."""

    rows: Sequence[Row]
    number: int
    more: bool


def list_orders(connection: sa.Connection, email: str, number: int) -> Part:
    query = sa.select(_orders).where(_orders.c.customer_email == email)
    return _part(connection, query, _orders.c.placed_at, _orders.c.order_id, number)


def list_conversations(connection: sa.Connection, email: str, number: int) -> Part:
    query = sa.select(_conversations).where(_conversations.c.customer_email == email)
    key = _conversations.c.conversation_id
    return _part(connection, query, _conversations.c.last_mail_at, key, number)


def list_refunds(connection: sa.Connection, email: str, number: int) -> Part:
    """Return the refunds of their orders, and those that were asked for in their conversations."""
    orders = sa.select(_orders.c.order_id).where(_orders.c.customer_email == email)
    threads = sa.select(_conversations.c.conversation_id).where(
        _conversations.c.customer_email == email
    )
    query = sa.select(_refunds).where(
        sa.or_(_refunds.c.order_id.in_(orders), _refunds.c.conversation_id.in_(threads))
    )
    return _part(connection, query, _refunds.c.requested_at, _refunds.c.refund_id, number)


def list_discounts(connection: sa.Connection, email: str, number: int) -> Part:
    orders = sa.select(_orders.c.order_id).where(_orders.c.customer_email == email)
    query = sa.select(_codes).where(_codes.c.order_id.in_(orders))
    return _part(connection, query, _codes.c.issued_at, _codes.c.order_id, number)


def list_loose_mails(connection: sa.Connection, email: str, number: int) -> Part:
    """Return mail from the address that belongs to no conversation, such as automatic answers."""
    names = ("mail_id", "subject", "kind", "status", "no_answer_reason", "received_at")
    query = sa.select(*(_inbound.c[name] for name in names)).where(
        _inbound.c.from_address == email, _inbound.c.conversation_id.is_(None)
    )
    return _part(connection, query, _inbound.c.received_at, _inbound.c.mail_id, number)


def _part(
    connection: sa.Connection,
    query: sa.Select[Any],
    at: sa.Column[datetime],
    key: sa.Column[str],
    number: int,
) -> Part:
    rows = connection.execute(
        query.order_by(at.desc(), key).offset((number - 1) * PAGE_LENGTH).limit(PAGE_LENGTH + 1)
    ).all()
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
