"""Which worker processes live: each renews its lease every few seconds.

All times are the database's: a machine whose clock is wrong neither buries the others nor lives for ever.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import UtcDateTime, insert_once

_workers = schema.workers

# A worker that was not seen for so long is dead, and its runs are taken over.
LEASE_SECONDS = 30.0
# Two heartbeats and a slow database. A worker with a longer gap was cut off from the database, so it cannot
# tell whether others are dead or were cut off as well.
LONGEST_GAP_SECONDS = 15.0
FORGOTTEN_AFTER_SECONDS = 86_400.0


def sign_in(connection: sa.Connection, worker_id: str) -> None:
    """Renew the lease of a worker. After a gap, or a jump of the clock, it counts as steady from now on."""
    now, gap = _now(connection), timedelta(seconds=LONGEST_GAP_SECONDS)
    new = {"worker_id": worker_id, "seen_at": now, "steady_since": now}
    if insert_once(connection, _workers, new, "worker_id"):
        return
    steady = sa.and_(
        _workers.c.seen_at.between(now - gap, now + gap), _workers.c.steady_since <= now
    )
    since = sa.case((steady, _workers.c.steady_since), else_=sa.literal(now, UtcDateTime))
    here = _workers.c.worker_id == worker_id
    connection.execute(_workers.update().where(here).values(seen_at=now, steady_since=since))


def sign_out(connection: sa.Connection, worker_id: str) -> None:
    """Record that a worker has ended; what it left unfinished may be taken over at once."""
    connection.execute(_workers.delete().where(_workers.c.worker_id == worker_id))


def forget(connection: sa.Connection) -> None:
    """Delete the rows of workers that have not been seen for a day: hosts come and go."""
    before = _now(connection) - timedelta(seconds=FORGOTTEN_AFTER_SECONDS)
    connection.execute(_workers.delete().where(_workers.c.seen_at < before))


def alive(connection: sa.Connection) -> sa.Select[str]:
    """Return the query for the workers that live, for use within another statement.

    A row far in the future was written before the clock was set back, and does not count.
    """
    now, lease = _now(connection), timedelta(seconds=LEASE_SECONDS)
    return sa.select(_workers.c.worker_id).where(
        _workers.c.seen_at.between(now - lease, now + lease)
    )


def can_be_missed(connection: sa.Connection) -> sa.ColumnElement[bool]:
    """Return the condition under which a worker without a lease is dead: some worker has reached the database
    for a whole lease without a gap, so every other living worker could have reached it too.

    After an outage all leases have ended, and the first worker that is back must not take over the others.
    """
    steady = _workers.c.steady_since <= _now(connection) - timedelta(seconds=LEASE_SECONDS)
    return alive(connection).where(steady).exists()


def _now(connection: sa.Connection) -> datetime:
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)  # it has no other clock than this machine's
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now
