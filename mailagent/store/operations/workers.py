"""Worker processes and their leases. Each worker renews its lease every few seconds.

All times are the database's, so that a machine with a wrong clock is treated like the others.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import UtcDateTime, insert_once, update_rows

_workers = schema.workers

# A worker that has not renewed its lease for so long is dead, and others take over its runs.
LEASE_SECONDS = 30.0
# The time of two heartbeats on a slow database. A worker with a longer gap was cut off from the database, so it
# cannot know whether other workers are dead or were cut off, too.
LONGEST_GAP_SECONDS = 15.0
FORGOTTEN_AFTER_SECONDS = 86_400.0


def sign_in(connection: sa.Connection, worker_id: str) -> None:
    """Renew the lease of a worker. After a gap, or a jump of the clock, its `steady_since` begins anew."""
    now, gap = _now(connection), timedelta(seconds=LONGEST_GAP_SECONDS)
    new = {"worker_id": worker_id, "seen_at": now, "steady_since": now}
    if insert_once(connection, _workers, new, "worker_id"):
        return
    steady = sa.and_(
        _workers.c.seen_at.between(now - gap, now + gap), _workers.c.steady_since <= now
    )
    since = sa.case((steady, _workers.c.steady_since), else_=sa.literal(now, UtcDateTime))
    here = _workers.c.worker_id == worker_id
    update_rows(connection, _workers, here, seen_at=now, steady_since=since)


def sign_out(connection: sa.Connection, worker_id: str) -> None:
    """Record that a worker has ended, so that others may take over its unfinished runs at once."""
    connection.execute(_workers.delete().where(_workers.c.worker_id == worker_id))


def forget(connection: sa.Connection) -> None:
    """Delete the rows of workers without a heartbeat for a day."""
    before = _now(connection) - timedelta(seconds=FORGOTTEN_AFTER_SECONDS)
    connection.execute(_workers.delete().where(_workers.c.seen_at < before))


def alive(connection: sa.Connection) -> sa.Select[str]:
    """Return the query for the ids of living workers, for use within another statement.

    A row with a time far in the future does not count: it was written before the clock was set back.
    """
    now, lease = _now(connection), timedelta(seconds=LEASE_SECONDS)
    return sa.select(_workers.c.worker_id).where(
        _workers.c.seen_at.between(now - lease, now + lease)
    )


def where_dead_without_lease(connection: sa.Connection) -> sa.ColumnElement[bool]:
    """Return the condition under which workers without a lease are certainly dead: some worker has reached the
    database for the time of a whole lease without a gap, so every living worker could have done so, too.

    Without it, the first worker that is back after an outage of the database would take over the runs of all
    others, whose leases have ended, too.
    """
    steady = _workers.c.steady_since <= _now(connection) - timedelta(seconds=LEASE_SECONDS)
    return alive(connection).where(steady).exists()


def _now(connection: sa.Connection) -> datetime:
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)  # SQLite has no clock but this machine's
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now
