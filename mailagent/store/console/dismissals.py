"""What people have dealt with: lost mail, failed refunds and failed runs that they dismissed from the inbox,
and failed runs whose customers they answered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.mail import assignments
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


def is_open(connection: sa.Connection, failed: sa.Subquery) -> sa.ColumnElement[bool]:
    """Whether a failed run still needs a person. `failed`: run_id, subject and failed_ms of failed runs. One
    that fails again after a person has dealt with it is open again."""
    runs, dismissal = failed.c, _dismissals.alias("dismissal").c
    dismissed_ms = _milliseconds(connection, dismissal.at)
    dismissed = sa.exists().where(dismissal.subject == runs.run_id, dismissed_ms >= runs.failed_ms)
    answered_ms = _milliseconds(connection, assignments.answered_at(runs.subject))
    return ~dismissed & (sa.func.coalesce(answered_ms, 0) < runs.failed_ms)


def _milliseconds(connection: sa.Connection, at: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a time as DBOS has its times: milliseconds since 1970."""
    if connection.dialect.name == "postgresql":
        return sa.extract("epoch", at) * 1000
    return (sa.func.julianday(at) - 2440587.5) * 86_400_000  # the Julian day of 1970
