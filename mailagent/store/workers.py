"""Which worker processes live: each says so every few seconds, and the rest have vanished.

All in the database's time: a machine whose clock is wrong neither kills the others nor lives for ever.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import insert_once

_workers = schema.workers


def sign_in(connection: sa.Connection, worker_id: str) -> None:
    """Record that a worker lives."""
    now = _now(connection)
    if not insert_once(connection, _workers, {"worker_id": worker_id, "seen_at": now}, "worker_id"):
        connection.execute(
            _workers.update().where(_workers.c.worker_id == worker_id).values(seen_at=now)
        )


def sign_out(connection: sa.Connection, worker_id: str) -> None:
    """Record that a worker has ended; what it left unfinished may be taken over at once."""
    connection.execute(_workers.delete().where(_workers.c.worker_id == worker_id))


def list_alive(connection: sa.Connection, within_seconds: float) -> set[str]:
    """Return the workers that were seen lately."""
    since = _now(connection) - timedelta(seconds=within_seconds)
    return set(
        connection.scalars(sa.select(_workers.c.worker_id).where(_workers.c.seen_at >= since))
    )


def _now(connection: sa.Connection) -> datetime:
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)  # it has no other clock than this machine's
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now
