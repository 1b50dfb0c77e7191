"""Dismissals: lost mail, failed refunds and failed runs that people took out of the inbox. A failed run is also
dealt with once a person has answered its customer."""

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
    """Record that a person dismissed a row, or a run that failed at `failed_at`; return whether that is new. A
    run that fails again can be dismissed again."""
    at = connection.scalar(sa.select(_dismissals.c.at).where(_dismissals.c.subject == subject))
    if at is not None and (failed_at is None or at >= failed_at):
        return False
    forget(connection, subject)
    connection.execute(_dismissals.insert().values(subject=subject, dismissed_by=email, at=now))
    return True


def forget(connection: sa.Connection, subject: str) -> bool:
    """Bring a dismissed row back into the inbox; return whether it was dismissed."""
    deleted = connection.execute(_dismissals.delete().where(_dismissals.c.subject == subject))
    return deleted.rowcount > 0


def may_be(connection: sa.Connection, subject: str) -> bool:
    """Return whether a row may be dismissed: it is a lost outbound mail or a failed refund."""
    mail, refund = schema.outbound_mails.c, schema.refunds.c
    lost = sa.exists().where(mail.outbound_id == subject, mail.status.in_(LOST))
    failed = sa.exists().where(refund.refund_id == subject, refund.status == "failed")
    return bool(connection.scalar(sa.select(sa.or_(lost, failed))))


def where_open(connection: sa.Connection, failed: sa.Subquery) -> sa.ColumnElement[bool]:
    """Return the condition that a failed run still needs a person. `failed`: a query of failed runs with
    run_id, subject and failed_ms. A run that fails again after a person has dealt with it is open again."""
    runs, dismissal = failed.c, _dismissals.alias("dismissal").c
    dismissed_ms = _milliseconds(connection, dismissal.at)
    dismissed = sa.exists().where(dismissal.subject == runs.run_id, dismissed_ms >= runs.failed_ms)
    answered_ms = _milliseconds(connection, assignments.last_answer_at(runs.subject))
    # Whether mail waits is asked last: an answer is rare, and the database stops at the first that decides.
    not_answered = sa.func.coalesce(answered_ms, 0) < runs.failed_ms
    return ~dismissed & sa.or_(not_answered, assignments.where_mail_waits(runs.subject))


def _milliseconds(connection: sa.Connection, at: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the expression for a time in milliseconds since 1970, as DBOS stores times."""
    if connection.dialect.name == "postgresql":
        return sa.extract("epoch", at) * 1000
    return (sa.func.julianday(at) - 2440587.5) * 86_400_000  # the Julian day of 1970
