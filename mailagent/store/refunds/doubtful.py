"""Mail whose state is in doubt after a restore from a backup: it may have been sent or answered since the
backup. Mail that `flask mails doubt` wrote itself is not in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.store import audit, schema
from mailagent.store.database import Row
from mailagent.store.mail import throttled

_ours, _theirs = schema.outbound_mails, schema.inbound_mails

# Marks the command's own mails, so that it can be interrupted and run again.
WRITTEN = "mail written after a restore"

_WAITS = _theirs.c.status.in_([MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value])
_FLOODED = sa.and_(
    _theirs.c.status == MailStatus.THROTTLED.value,
    _theirs.c.no_answer_reason != throttled.LOOP_DETECTED,
)


def list_ours(connection: sa.Connection) -> list[str]:
    """Return our mails that are queued or being sent, without those written since the restore."""
    of_now = sa.exists().where(
        schema.audit.c.subject == _ours.c.outbound_id, schema.audit.c.action == WRITTEN
    )
    query = sa.select(_ours.c.outbound_id).where(
        _ours.c.status.in_([OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value]), ~of_now
    )
    return list(connection.scalars(query.order_by(_ours.c.outbound_id)))


def record_written(connection: sa.Connection, since: datetime, now: datetime) -> None:
    """Record that our mails from `since` on were written after the restore."""
    query = sa.select(_ours.c.outbound_id).where(_ours.c.created_at >= since)
    for outbound_id in list(connection.scalars(query)):
        audit.record(connection, now, audit.CLOCK, WRITTEN, outbound_id)


def list_conversations(connection: sa.Connection) -> Sequence[Row]:
    """Return the conversations with unanswered or throttled mail: how many `mails`, and how many of these
    are `flooded`, throttled by a budget."""
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
    """Leave all waiting mail of a conversation to people; return the mails."""
    left = (
        _theirs.update()
        .where(_WAITS, _theirs.c.conversation_id == conversation_id)
        .values(status=MailStatus.NO_ANSWER.value, no_answer_reason=reason)
    )
    return sorted(connection.scalars(left.returning(_theirs.c.mail_id)))
