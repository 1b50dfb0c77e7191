"""Reading the audit trail: by pages, and whole. Writing to it is `audit`'s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Database, Row
from mailagent.store.pagination import Cursor, Part, Source, Window, read_part

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
