"""What we wrote to a customer: lists for the prompt, the console and the loop guard."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import Purpose
from mailagent.domain.mail.redaction import without_keys
from mailagent.store import schema
from mailagent.store.database import END_OF_TIME, Row

_mails = schema.outbound_mails


_TO_CUSTOMER = (
    sa.select(_mails)
    .where(
        _mails.c.conversation_id == sa.bindparam("conversation_id"),
        _mails.c.to_address == sa.bindparam("address"),
        _mails.c.created_at <= sa.bindparam("until"),
    )
    .order_by(_mails.c.created_at.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)


_TIMES_TO_CUSTOMER = _TO_CUSTOMER.with_only_columns(_mails.c.created_at)


def list_of_conversation(connection: sa.Connection, conversation_id: str) -> Sequence[Row]:
    """Return our mails of a thread, oldest first, as whole rows."""
    return connection.execute(
        sa.select(_mails)
        .where(_mails.c.conversation_id == conversation_id)
        .order_by(_mails.c.created_at, _mails.c.outbound_id)
    ).all()


def list_to_customer(
    connection: sa.Connection,
    conversation_id: str,
    address: str,
    limit: int,
    until: datetime = END_OF_TIME,
) -> Sequence[Row]:
    """Return the newest mails of ours to the customer in this thread, written by a time, oldest of them
    first."""
    values = {"conversation_id": conversation_id, "address": address, "most": limit, "until": until}
    return connection.execute(_TO_CUSTOMER, values).all()[::-1]


def list_times_to_customer(
    connection: sa.Connection, conversation_id: str, address: str, limit: int
) -> Sequence[datetime]:
    """Return when the newest mails of ours to the customer in this thread were written, the newest first."""
    values = {"conversation_id": conversation_id, "address": address, "most": limit}
    return connection.scalars(_TIMES_TO_CUSTOMER, values | {"until": END_OF_TIME}).all()


def list_texts_to(connection: sa.Connection, address: str, limit: int = 20) -> list[str]:
    """Return the texts of our newest mails to an address, oldest of them first, without links that decide
    or log in: what its next mail may quote."""
    texts = connection.scalars(
        sa.select(_mails.c.text)
        .where(_mails.c.to_address == address)
        .order_by(_mails.c.created_at.desc())
        .limit(limit)
    ).all()
    return [without_keys(text) for text in texts[::-1]]


def latest_at(connection: sa.Connection, conversation_id: str, purpose: Purpose) -> datetime | None:
    """Return when the latest mail of one purpose was written in a thread, or None."""
    latest: datetime | None = connection.scalar(
        sa.select(_mails.c.created_at)
        .where(_mails.c.conversation_id == conversation_id, _mails.c.purpose == purpose.value)
        .order_by(_mails.c.created_at.desc())
        .limit(1)
    )
    return latest


def count_to(connection: sa.Connection, address: str, purpose: Purpose, since: datetime) -> int:
    """Return how many mails of one purpose were written to an address since a time."""
    query = sa.select(sa.func.count()).where(
        _mails.c.to_address == address,
        _mails.c.created_at >= since,
        _mails.c.purpose == purpose.value,
    )
    return connection.scalar(query) or 0
