"""How much mail came and was answered lately: what budgets and the fuse are decided on.

Mail that is proven to be its sender's and mail that is not are counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import Identity, MailStatus, Purpose
from mailagent.store import schema

_mails, _outbound = schema.inbound_mails, schema.outbound_mails

# More within a day have an hour above any limit among them.
MOST_TIMES = 500


def is_proven(proven: bool) -> sa.ColumnElement[bool]:
    """Return the condition for mail that is proven to be its sender's, or for mail that is not."""
    if proven:
        return _mails.c.identity != Identity.NONE.value
    return _mails.c.identity == Identity.NONE.value


def of_sender(proven: bool) -> sa.Select[Any]:
    """Return the question that has a row for answer if more mails than the value `before` have come from
    `address` since a time, parked or not."""
    came = sa.select(_mails.c.mail_id).where(
        _mails.c.received_at >= sa.bindparam("since"),
        _mails.c.from_address == sa.bindparam("address"),
        is_proven(proven),
    )
    return came.offset(sa.bindparam("before", type_=sa.Integer)).limit(1)


def is_share_used_up(
    connection: sa.Connection, since: datetime, most: int, proven: bool, key: str
) -> bool:
    """Return whether so many mails of one `rate_limit_key` as `most` says were let in since a time."""
    let_in = sa.select(_mails.c.mail_id).where(
        _mails.c.received_at >= since,
        _mails.c.rate_limit_key == key,
        _mails.c.status != MailStatus.PARKED.value,
        is_proven(proven),
    )
    return connection.scalar(let_in.offset(most - 1).limit(1)) is not None


def is_used_up(
    connection: sa.Connection, since: datetime, most: int, proven: bool, address: str
) -> bool:
    """Return whether so many mails of one address as `most` says have come since a time, parked or not.

    Mail that is proven to be its sender's and mail that is not are counted apart.
    """
    values = {"since": since, "address": address, "before": most - 1}
    return connection.scalar(of_sender(proven), values) is not None


@dataclass(frozen=True, slots=True)
class Automatic:
    """When an automatic answer was written, or a mail came that the fuse left without one: `in_thread`
    in the thread that is asked about, else to or from the address."""

    at: datetime
    in_thread: bool


def _stopped(proven: bool) -> sa.Select[Any]:
    return sa.select(_mails.c.received_at.label("at")).where(
        _mails.c.no_answer_reason == HandOverReason.FUSE.value,
        _mails.c.received_at >= sa.bindparam("since"),
        is_proven(proven),
    )


def _answered(proven: bool) -> sa.Select[Any]:
    answered = (
        sa.select(sa.literal(1))
        .where(
            _mails.c.conversation_id == _outbound.c.conversation_id,
            _mails.c.answered_by == _outbound.c.outbound_id,
            is_proven(proven),
        )
        .exists()
    )
    return sa.select(_outbound.c.created_at.label("at")).where(
        _outbound.c.purpose == Purpose.REPLY.value,
        _outbound.c.auto_submitted != "no",  # a person read it before it went out
        _outbound.c.created_at >= sa.bindparam("since"),
        answered,
    )


def _automatic(proven: bool) -> sa.CompoundSelect[Any]:
    """Return the newest of each kind, in one question."""
    thread: sa.BindParameter[str] = sa.bindparam("conversation_id")
    address: sa.BindParameter[str] = sa.bindparam("address")
    answered, stopped = _answered(proven), _stopped(proven)
    parts = [
        (answered.where(_outbound.c.conversation_id == thread), True),
        (stopped.where(_mails.c.conversation_id == thread), True),
        (answered.where(_outbound.c.to_address == address), False),
        (stopped.where(_mails.c.from_address == address), False),
    ]
    newest = [
        (part.order_by(sa.desc("at")).limit(MOST_TIMES).subquery(), in_thread)
        for part, in_thread in parts
    ]
    return sa.union_all(
        *(
            sa.select(part.c.at, sa.literal(in_thread).label("in_thread"))
            for part, in_thread in newest
        )
    )


_AUTOMATIC = {proven: _automatic(proven) for proven in (False, True)}


def list_automatic(
    connection: sa.Connection, since: datetime, proven: bool, conversation_id: str, address: str
) -> list[Automatic]:
    """Return the agent's newest answers since a time, and the newest mails that the fuse left without one,
    of a thread and of an address; what is of both is there twice, once as each.

    `proven`: to mail that was proven to be its sender's, or to mail that was not.
    """
    values = {"since": since, "conversation_id": conversation_id, "address": address}
    rows = connection.execute(_AUTOMATIC[proven], values)
    return [Automatic(row.at, row.in_thread) for row in rows]
