"""What people have seen to: it leaves the lists of the inbox, and stays where it belongs."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.mail.outbound import LOST

_table = schema.put_away


def record(connection: sa.Connection, subject: str, email: str, now: datetime) -> None:
    """Record that somebody has seen to a row or a run; of two, the later one counts."""
    forget(connection, subject)
    connection.execute(_table.insert().values(subject=subject, put_away_by=email, at=now))


def forget(connection: sa.Connection, subject: str) -> bool:
    """Put it back; return whether it had been put away."""
    return connection.execute(_table.delete().where(_table.c.subject == subject)).rowcount > 0


def may_be(connection: sa.Connection, subject: str) -> bool:
    """Return whether this is a mail of ours that was lost, or a refund that failed."""
    mails, refunds = schema.outbound_mails.c, schema.refunds.c
    lost = sa.select(sa.literal(1)).where(mails.outbound_id == subject, mails.status.in_(LOST))
    failed = sa.select(sa.literal(1)).where(
        refunds.refund_id == subject, refunds.status == RefundStatus.FAILED.value
    )
    return connection.scalar(lost) is not None or connection.scalar(failed) is not None
