"""What people have dismissed from the inbox: lost mail, failed refunds and failed runs."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.mail.outbound import LOST

_dismissals = schema.dismissals


def record(
    connection: sa.Connection,
    subject: str,
    email: str,
    now: datetime,
    failed_at: datetime | None = None,
) -> bool:
    """Record that a person dismissed a row, or a run that failed at a time; return whether that is news. A run
    that failed again is dismissed again."""
    at = connection.scalar(sa.select(_dismissals.c.at).where(_dismissals.c.subject == subject))
    if at is not None and (failed_at is None or at >= failed_at):
        return False
    forget(connection, subject)
    connection.execute(_dismissals.insert().values(subject=subject, dismissed_by=email, at=now))
    return True


def forget(connection: sa.Connection, subject: str) -> bool:
    """Bring a row back; return whether it had been dismissed."""
    deleted = connection.execute(_dismissals.delete().where(_dismissals.c.subject == subject))
    return deleted.rowcount > 0


def may_be(connection: sa.Connection, subject: str) -> bool:
    """Return whether this is a lost outbound mail or a failed refund."""
    mail, refund = schema.outbound_mails.c, schema.refunds.c
    lost = sa.exists().where(mail.outbound_id == subject, mail.status.in_(LOST))
    failed = sa.exists().where(refund.refund_id == subject, refund.status == "failed")
    return bool(connection.scalar(sa.select(sa.or_(lost, failed))))
