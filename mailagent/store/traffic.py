"""How much mail came and was answered lately: what budgets and the fuse are decided on.

Mail that is proven to be its sender's and mail that is not are counted apart.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.conversation import HandOverReason
from mailagent.domain.mail import Identity, Purpose
from mailagent.store import schema

_mails, _outbound = schema.inbound_mails, schema.outbound_mails

# More within a day have an hour above any limit among them.
MOST_TIMES = 500


def _is_proven(proven: bool) -> sa.ColumnElement[bool]:
    if proven:
        return _mails.c.identity != Identity.NONE.value
    return _mails.c.identity == Identity.NONE.value


def is_over_budget(
    connection: sa.Connection,
    since: datetime,
    most: int,
    proven: bool,
    from_address: str | None = None,
) -> bool:
    """Return whether `most` mails have come since a time, of one sender or of all.

    Mail that is proven to be its sender's and mail that is not are counted apart.
    """
    query = sa.select(sa.literal(1)).where(_mails.c.received_at >= since, _is_proven(proven))
    if from_address is not None:
        query = query.where(_mails.c.from_address == from_address)
    return connection.scalar(query.offset(most - 1).limit(1)) is not None


def list_stopped_times(
    connection: sa.Connection,
    since: datetime,
    proven: bool,
    conversation_id: str | None = None,
    address: str | None = None,
) -> list[datetime]:
    """Return when the newest mails since a time came that the fuse left without an answer, in a thread
    or of a sender."""
    query = sa.select(_mails.c.received_at).where(
        _mails.c.no_answer_reason == HandOverReason.FUSE.value,
        _mails.c.received_at >= since,
        _is_proven(proven),
    )
    if conversation_id is not None:
        query = query.where(_mails.c.conversation_id == conversation_id)
    if address is not None:
        query = query.where(_mails.c.from_address == address)
    newest = query.order_by(_mails.c.received_at.desc()).limit(MOST_TIMES)
    return list(connection.scalars(newest))


def list_answer_times(
    connection: sa.Connection,
    since: datetime,
    proven: bool,
    conversation_id: str | None = None,
    address: str | None = None,
) -> list[datetime]:
    """Return when the agent's newest answers since a time were written, in a thread or to an address.

    `proven`: to mail that was proven to be its sender's, or to mail that was not.
    """
    by_proven = _mails.c.identity != Identity.NONE.value
    answered = (
        sa.select(sa.literal(1))
        .where(
            _mails.c.conversation_id == _outbound.c.conversation_id,
            _mails.c.answered_by == _outbound.c.outbound_id,
            by_proven if proven else ~by_proven,
        )
        .exists()
    )
    query = sa.select(_outbound.c.created_at).where(
        _outbound.c.purpose == Purpose.REPLY.value,
        _outbound.c.auto_submitted != "no",  # a person read it before it went out
        _outbound.c.created_at >= since,
        answered,
    )
    if conversation_id is not None:
        query = query.where(_outbound.c.conversation_id == conversation_id)
    if address is not None:
        query = query.where(_outbound.c.to_address == address)
    newest = query.order_by(_outbound.c.created_at.desc()).limit(MOST_TIMES)
    return list(connection.scalars(newest))
