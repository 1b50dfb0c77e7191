"""The audit log: who did what to which row, and when. Append-only, enforced by a trigger.

Details hold ids, amounts and states, never a customer's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Database, Row
from mailagent.store.pagination import Cursor, Part, Source, Window, read_part

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


def detail_of_mails(
    connection: sa.Connection, subject: str, action: str, mail_ids: Sequence[str], name: str
) -> str | None:
    """Return a detail of the last time that `action` was done to a row in answer to one of these mails."""
    query = (
        sa.select(schema.audit.c.details)
        .where(schema.audit.c.subject == subject, schema.audit.c.action == action)
        .order_by(schema.audit.c.audit_id.desc())
    )
    for details in connection.scalars(query):
        if details.get("mail_id") in mail_ids:
            return str(details[name]) if name in details else None
    return None


def count_of(connection: sa.Connection, subject: str) -> int:
    """Return how many acts on a row are on record."""
    query = sa.select(sa.func.count()).where(schema.audit.c.subject == subject)
    return connection.scalar(query) or 0


def latest_at(connection: sa.Connection, subject: str, action: str) -> datetime | None:
    """Return when `action` was last done to a row, or None."""
    latest: datetime | None = connection.scalar(_LATEST, {"subject": subject, "action": action})
    return latest


# --- audit log ------------------------------------------------------------------------------------


_audit = schema.audit

BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Act:
    """Somebody did something to a row."""

    audit_id: int
    at: datetime
    actor: str
    action: str
    subject: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which acts. Without any of these: all."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def read(connection: sa.Connection, wanted: Wanted, window: Window) -> Part[Act]:
    """Return one page of the trail."""
    source = Source(_query(wanted), _audit.c.at, _audit.c.audit_id, _act)
    return read_part(
        connection, [source], window, lambda act: Cursor(act.at, f"{act.audit_id:018}")
    )


def stream(database: Database, wanted: Wanted, batch: int = BATCH) -> Iterator[Act]:
    """Give all acts up to now, oldest first, in batches: no transaction stays open while somebody reads."""
    with database.snapshot() as connection:
        last = connection.scalar(sa.select(sa.func.max(_audit.c.audit_id))) or 0
    behind = 0
    while True:
        query = _query(wanted).where(_audit.c.audit_id > behind, _audit.c.audit_id <= last)
        with database.snapshot() as connection:
            rows = connection.execute(query.order_by(_audit.c.audit_id).limit(batch)).all()
        yield from (_act(row) for row in rows)
        if len(rows) < batch:
            return
        behind = rows[-1].audit_id


def _query(wanted: Wanted) -> sa.Select[Any]:
    query: sa.Select[Any] = sa.select(_audit)
    named = {"actor": wanted.actor, "action": wanted.action, "subject": wanted.subject}
    for column, value in named.items():
        if value is not None:
            query = query.where(_audit.c[column] == value)
    if wanted.since is not None:
        query = query.where(_audit.c.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(_audit.c.at < wanted.until)
    return query


def _act(row: Row) -> Act:
    return Act(row.audit_id, row.at, row.actor, row.action, row.subject, dict(row.details))
