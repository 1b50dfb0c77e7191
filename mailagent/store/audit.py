"""The audit trail: who did what to which row, and when. It only grows; a trigger sees to that.

Details hold ids, amounts and states, never what a customer wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema

AGENT = "agent"
POLICY = "policy"
CLOCK = "clock"
CUSTOMER = "customer"

TOLD = "operators told"

# Actions that are looked for again.
GIVEN_BACK = "conversation given back"
SENT_AGAIN = "mail sent again"
WITHDRAWN = "refund withdrawn"
DECLINED = "refund declined"
CLOSED = "breaker closed"

# Statements that each mail needs are built once: building one costs about what sending it does.
_RECORD = schema.audit.insert().inline()  # nobody needs the number of the row
_LATEST = (
    sa.select(schema.audit.c.at)
    .where(
        schema.audit.c.subject == sa.bindparam("subject"),
        schema.audit.c.action == sa.bindparam("action"),
    )
    .order_by(schema.audit.c.audit_id.desc())
    .limit(1)
)


def record(
    connection: sa.Connection,
    now: datetime,
    actor: str,
    action: str,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record that `actor` did `action` (a past participle) to the row with the id `subject`."""
    values = {"at": now, "actor": actor, "action": action, "subject": subject}
    connection.execute(_RECORD, {**values, "details": dict(details or {})})


def told(connection: sa.Connection, subjects: Sequence[str]) -> set[str]:
    """Return of which of these the operators have been told."""
    query = sa.select(schema.audit.c.subject).where(
        schema.audit.c.subject.in_(subjects), schema.audit.c.action == TOLD
    )
    return set(connection.scalars(query))


def subjects_of_mails(
    connection: sa.Connection, subjects: Sequence[str], action: str, mail_ids: Sequence[str]
) -> set[str]:
    """Return to which of these rows `action` was done in answer to one of these mails."""
    query = sa.select(schema.audit.c.subject, schema.audit.c.details).where(
        schema.audit.c.subject.in_(subjects), schema.audit.c.action == action
    )
    found = connection.execute(query)
    return {row.subject for row in found if row.details.get("mail_id") in mail_ids}


def count_of(connection: sa.Connection, subject: str) -> int:
    """Return how many acts on a row are on record."""
    query = sa.select(sa.func.count()).where(schema.audit.c.subject == subject)
    return connection.scalar(query) or 0


def latest_at(connection: sa.Connection, subject: str, action: str) -> datetime | None:
    """Return when `action` was last done to a row, or None."""
    latest: datetime | None = connection.scalar(_LATEST, {"subject": subject, "action": action})
    return latest
