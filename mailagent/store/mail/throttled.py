"""Mail that is throttled: by a budget, to be let in later, or by the loop guard, until people are told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import Identity, MailStatus
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.store.mail.arrivals import is_unconfirmed

_mails = schema.inbound_mails

LOOP_DETECTED = HandOverReason.LOOP_DETECTED.value
SUMMED_UP = "throttled in a flood until its time was up; people were told how many there were"

_THROTTLED = _mails.c.status == MailStatus.THROTTLED.value
BY_LOOP_GUARD = sa.and_(_THROTTLED, _mails.c.no_answer_reason == LOOP_DETECTED)
BY_BUDGET = sa.and_(_THROTTLED, _mails.c.no_answer_reason != LOOP_DETECTED)


def throttle_by_loop_guard(connection: sa.Connection, mail_ids: Sequence[str]) -> bool:
    """Take mails that wait for an answer away from the agent, until people are told of them.

    Returns whether any did.
    """
    waiting = inbound.is_unanswered(mail_ids)
    return bool(
        inbound.change_status(connection, MailStatus.THROTTLED, waiting, reason=LOOP_DETECTED)
    )


def close_throttled_by_loop_guard(connection: sa.Connection, conversation_id: str) -> list[str]:
    """Record that people are told of what the loop guard throttled in a thread; return the mails."""
    here = _mails.c.conversation_id == conversation_id
    closed = inbound.change_status(
        connection, MailStatus.NO_ANSWER, BY_LOOP_GUARD, here, reason=LOOP_DETECTED
    )
    return [row.mail_id for row in closed]


def list_conversations_in_loop(connection: sa.Connection, limit: int) -> list[str]:
    """Return the conversations in which mail waits, throttled by the loop guard, for people to be told."""
    return _list_conversations(connection, BY_LOOP_GUARD, limit)


def list_overdue_conversations(
    connection: sa.Connection, before: datetime, limit: int
) -> list[str]:
    overdue = sa.and_(BY_BUDGET, _mails.c.received_at <= before)
    return _list_conversations(connection, overdue, limit)


def _list_conversations(
    connection: sa.Connection, where: sa.ColumnElement[bool], limit: int
) -> list[str]:
    query = sa.select(_mails.c.conversation_id).where(where).distinct()
    return list(connection.scalars(query.limit(limit)))


def close_overdue(
    connection: sa.Connection, before: datetime, reason: str, conversation_id: str | None = None
) -> list[str]:
    """Record that mail which a budget throttled before a time is people's now, of one thread or all of it;
    return its senders."""
    where = [BY_BUDGET, _mails.c.received_at <= before]
    if conversation_id is not None:
        where.append(_mails.c.conversation_id == conversation_id)
    closed = inbound.change_status(connection, MailStatus.NO_ANSWER, *where, reason=reason)
    return [row.from_address for row in closed]


def list_waiting(
    connection: sa.Connection, before: datetime, asked_since: datetime, limit: int
) -> Sequence[Row]:
    """Return mail that a budget throttled before a time: the oldest of each sender, going round the shares.

    A sender who is not proven and was asked since `asked_since` to confirm the address has to do so first.
    """
    oldest = (
        sa.select(
            sa.func.min(_mails.c.mail_id).label("mail_id"),
            sa.func.coalesce(_mails.c.rate_limit_key, _mails.c.from_address).label("share"),
        )
        .where(
            BY_BUDGET,
            _mails.c.received_at < before,
            sa.or_(
                _mails.c.identity != Identity.NONE.value,
                sa.not_(is_unconfirmed(_mails.c.from_address, asked_since)),
            ),
        )
        .group_by(_mails.c.from_address, _mails.c.rate_limit_key)
        .subquery()
    )
    turn = sa.func.row_number().over(partition_by=oldest.c.share, order_by=oldest.c.mail_id)
    return connection.execute(
        sa.select(_mails.c.mail_id, _mails.c.conversation_id, _mails.c.identity)
        .join(oldest, oldest.c.mail_id == _mails.c.mail_id)
        .order_by(turn, _mails.c.mail_id)
        .limit(limit)
    ).all()


def release(connection: sa.Connection, mail_id: str, run_id: str) -> None:
    """Let a throttled mail in: it waits to be answered."""
    this = _mails.c.mail_id == mail_id
    inbound.change_status(connection, MailStatus.UNANSWERED, _THROTTLED, this, run_id=run_id)
