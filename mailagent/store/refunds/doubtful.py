"""What a database that was restored from a backup cannot know: mail that waited then, to go out or to be
answered. What `flask mails doubt` wrote itself is not in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.store import audit, schema
from mailagent.store.database import Row
from mailagent.store.mail import throttled

_ours, _theirs = schema.outbound_mails, schema.inbound_mails

# So that the command may be broken off, and run again: these are as new as the restored database.
WRITTEN = "mail written after a restore"

_WAITS = _theirs.c.status.in_([MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value])
_FLOODED = sa.and_(
    _theirs.c.status == MailStatus.THROTTLED.value,
    _theirs.c.no_answer_reason != throttled.LOOP_DETECTED,
)


def list_ours(connection: sa.Connection) -> list[str]:
    """Return mails of ours that wait to go out, or were about to, but those written since the restore."""
    of_now = sa.exists().where(
        schema.audit.c.subject == _ours.c.outbound_id, schema.audit.c.action == WRITTEN
    )
    query = sa.select(_ours.c.outbound_id).where(
        _ours.c.status.in_([OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value]), ~of_now
    )
    return list(connection.scalars(query.order_by(_ours.c.outbound_id)))


def record_written(connection: sa.Connection, since: datetime, now: datetime) -> None:
    """Record that the mails of ours from `since` on were written after the restore."""
    query = sa.select(_ours.c.outbound_id).where(_ours.c.created_at >= since)
    for outbound_id in list(connection.scalars(query)):
        audit.record(connection, now, audit.CLOCK, WRITTEN, outbound_id)


def list_conversations(connection: sa.Connection) -> Sequence[Row]:
    """Return the conversations in which mail waits: for the agent, for somebody to send a draft, or
    throttled; each with how many `mails`, and how many of these are only `flooded`, throttled by a budget."""
    flooded = sa.func.sum(sa.case((_FLOODED, 1), else_=0))
    return connection.execute(
        sa.select(
            _theirs.c.conversation_id, sa.func.count().label("mails"), flooded.label("flooded")
        )
        .where(_WAITS, _theirs.c.conversation_id.is_not(None))
        .group_by(_theirs.c.conversation_id)
        .order_by(_theirs.c.conversation_id)
    ).all()


def leave(connection: sa.Connection, conversation_id: str, reason: str) -> list[str]:
    """Record that all mail which waits in a conversation is people's; return the mails."""
    left = (
        _theirs.update()
        .where(_WAITS, _theirs.c.conversation_id == conversation_id)
        .values(status=MailStatus.NO_ANSWER.value, no_answer_reason=reason)
    )
    return sorted(connection.scalars(left.returning(_theirs.c.mail_id)))
