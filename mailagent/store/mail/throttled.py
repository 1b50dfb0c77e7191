"""Throttled mail: too much came, and we answer it later; or the loop guard stopped, and the team must hear of
it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import Identity, MailStatus
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.store.mail.arrivals import where_unconfirmed

_mails = schema.inbound_mails

LOOP_DETECTED = HandOverReason.LOOP_DETECTED.value
SUMMED_UP = "throttled in a flood until its time was up; people were told how many there were"

_THROTTLED = _mails.c.status == MailStatus.THROTTLED.value
BY_LOOP_GUARD = sa.and_(_THROTTLED, _mails.c.no_answer_reason == LOOP_DETECTED)
BY_MAIL_LIMIT = sa.and_(_THROTTLED, _mails.c.no_answer_reason != LOOP_DETECTED)


def throttle_by_loop_guard(connection: sa.Connection, mail_ids: Sequence[str]) -> bool:
    """Throttle mails that wait for an answer, until the team has a mail about them.

    Return whether any of them waited.
    """
    waiting = inbound.where_unanswered(mail_ids)
    return bool(
        inbound.change_status(connection, MailStatus.THROTTLED, waiting, reason=LOOP_DETECTED)
    )


def close_throttled_by_loop_guard(connection: sa.Connection, conversation_id: str) -> list[str]:
    """Record that the team has a mail about what the loop guard throttled in a thread; return the mails'
    ids."""
    here = _mails.c.conversation_id == conversation_id
    closed = inbound.change_status(
        connection, MailStatus.NO_ANSWER, BY_LOOP_GUARD, here, reason=LOOP_DETECTED
    )
    return [row.mail_id for row in closed]


def list_conversations_in_loop(connection: sa.Connection, limit: int) -> list[str]:
    """Return the conversations with mail that the loop guard throttled and the team has no mail about yet."""
    return _list_conversations(connection, BY_LOOP_GUARD, limit)


def list_overdue_conversations(
    connection: sa.Connection, before: datetime, limit: int
) -> list[str]:
    overdue = sa.and_(BY_MAIL_LIMIT, _mails.c.received_at <= before)
    return _list_conversations(connection, overdue, limit)


def _list_conversations(
    connection: sa.Connection, where: sa.ColumnElement[bool], limit: int
) -> list[str]:
    query = sa.select(_mails.c.conversation_id).where(where).distinct()
    return list(connection.scalars(query.limit(limit)))


def close_overdue(
    connection: sa.Connection, before: datetime, reason: str, conversation_id: str | None = None
) -> list[str]:
    """Leave to people the mail that came before a time and is throttled because too much came: of one thread,
    or of all. Return its senders."""
    where = [BY_MAIL_LIMIT, _mails.c.received_at <= before]
    if conversation_id is not None:
        where.append(_mails.c.conversation_id == conversation_id)
    closed = inbound.change_status(connection, MailStatus.NO_ANSWER, *where, reason=reason)
    return [row.from_address for row in closed]


def close(connection: sa.Connection, mail_ids: Sequence[str], reason: str) -> list[str]:
    """Leave those of these mails that are throttled without an answer; return their ids."""
    these = _mails.c.mail_id.in_(mail_ids)
    closed = inbound.change_status(
        connection, MailStatus.NO_ANSWER, _THROTTLED, these, reason=reason
    )
    return [row.mail_id for row in closed]


def list_waiting(
    connection: sa.Connection, before: datetime, asked_since: datetime, limit: int
) -> Sequence[Row]:
    """Return mail that came before a time and is throttled because too much came: the oldest mail of each
    sender, one of each `rate_limit_key` in turn.

    Mail of an unproven sender whom we have asked, since `asked_since`, to confirm the address is left out.
    """
    oldest = (
        sa.select(
            sa.func.min(_mails.c.mail_id).label("mail_id"),
            sa.func.coalesce(_mails.c.rate_limit_key, _mails.c.from_address).label("share"),
        )
        .where(
            BY_MAIL_LIMIT,
            _mails.c.received_at < before,
            sa.or_(
                _mails.c.identity != Identity.NONE.value,
                sa.not_(where_unconfirmed(_mails.c.from_address, asked_since)),
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
    """Let a throttled mail wait for an answer. `run_id`: the run that is enqueued for it."""
    this = _mails.c.mail_id == mail_id
    inbound.change_status(connection, MailStatus.UNANSWERED, _THROTTLED, this, run_id=run_id)
