"""Everything on record about one customer's address, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Row

PAGE_LENGTH = 20

_orders, _conversations, _refunds = schema.orders, schema.conversations, schema.refunds
_inbound, _codes = schema.inbound_mails, schema.goodwill_codes
_suppressed = schema.suppressed_addresses


@dataclass(frozen=True, slots=True)
class Lists:
    """The rows of one page, by kind, newest first. `has_older`: whether a further page has rows of any kind."""

    rows: Mapping[str, Sequence[Row]]
    has_older: bool


def read_lists(connection: sa.Connection, email: str, number: int) -> Lists:
    """Return page `number` of a customer's lists. Refunds: of the customer's orders, and those requested in
    their conversations. Mails: only those without a conversation, such as automatic replies."""
    order, thread, refund, mail = _orders.c, _conversations.c, _refunds.c, _inbound.c
    own_orders, own_threads = order.customer_email == email, thread.customer_email == email
    orders = sa.select(order.order_id).where(own_orders)
    threads = sa.select(thread.conversation_id).where(own_threads)
    of_refunds = sa.or_(refund.order_id.in_(orders), refund.conversation_id.in_(threads))
    loose = sa.and_(mail.from_address == email, mail.conversation_id.is_(None))
    lists = {
        "conversations": (_conversations, own_threads, thread.last_mail_at, thread.conversation_id),
        "orders": (_orders, own_orders, order.placed_at, order.order_id),
        "refunds": (_refunds, of_refunds, refund.requested_at, refund.refund_id),
        "discounts": (_codes, _codes.c.order_id.in_(orders), _codes.c.issued_at, _codes.c.order_id),
        "mails": (_inbound, loose, mail.received_at, mail.mail_id),
    }
    found = {}
    for name, (table, where, at, key) in lists.items():
        query = sa.select(table).where(where).order_by(at.desc(), key)
        page = query.offset((number - 1) * PAGE_LENGTH).limit(PAGE_LENGTH + 1)
        found[name] = connection.execute(page).all()
    has_older = any(len(rows) > PAGE_LENGTH for rows in found.values())
    return Lists({name: rows[:PAGE_LENGTH] for name, rows in found.items()}, has_older)


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
    """Return the suppression of an address; None if we may write to it."""
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
