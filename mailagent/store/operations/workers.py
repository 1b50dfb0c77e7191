"""Which worker processes live: each says so every few seconds, and the rest have vanished.

All in the database's time: a machine whose clock is wrong neither kills the others nor lives for ever.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mailagent.store import schema

_workers = schema.workers

_NOW = sa.select(sa.func.clock_timestamp())

# Who has not been seen for so long has vanished, and its runs are taken over.
LEASE_SECONDS = 30.0
# Two beats, and a database that answers slowly. A worker whose own beats were further apart cannot tell
# whether others are gone or were kept from the database as it was.
LONGEST_GAP_SECONDS = 15.0
FORGOTTEN_AFTER_SECONDS = 86_400.0


def sign_in(connection: sa.Connection, worker_id: str) -> None:
    """Record that a worker lives; after a gap, or a leap of the clock, it is steady only from now on."""
    now, gap = _now(connection), timedelta(seconds=LONGEST_GAP_SECONDS)
    steady = sa.and_(
        _workers.c.seen_at.between(now - gap, now + gap), _workers.c.steady_since <= now
    )
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(_workers).values(worker_id=worker_id, seen_at=now, steady_since=now)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["worker_id"],
            set_={
                "seen_at": statement.excluded.seen_at,
                "steady_since": sa.case(
                    (steady, _workers.c.steady_since), else_=statement.excluded.steady_since
                ),
            },
        )
    )


def sign_out(connection: sa.Connection, worker_id: str) -> None:
    """Record that a worker has ended; what it left unfinished may be taken over at once."""
    connection.execute(_workers.delete().where(_workers.c.worker_id == worker_id))


def forget(connection: sa.Connection) -> None:
    """Delete the rows of workers that have not been seen for a day: hosts come and go."""
    before = _now(connection) - timedelta(seconds=FORGOTTEN_AFTER_SECONDS)
    connection.execute(_workers.delete().where(_workers.c.seen_at < before))


def alive(connection: sa.Connection) -> sa.Select[str]:
    """Return the question which workers live, to be asked within another statement.

    A row that is far in the future is of before the clock was set back, so it says nothing.
    """
    now, lease = _now(connection), timedelta(seconds=LEASE_SECONDS)
    return sa.select(_workers.c.worker_id).where(
        _workers.c.seen_at.between(now - lease, now + lease)
    )


def can_be_missed(connection: sa.Connection) -> sa.ColumnElement[bool]:
    """Return the condition under which who was not seen has vanished: some worker has reached the database
    for a whole lease without a gap, so every other that lives could have, too.

    After an outage all leases have run out, and the first that is back must not bury the others.
    """
    steady = _workers.c.steady_since <= _now(connection) - timedelta(seconds=LEASE_SECONDS)
    return alive(connection).where(steady).exists()


def _now(connection: sa.Connection) -> datetime:
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)  # it has no other clock than this machine's
    now: datetime = connection.execute(_NOW).scalar_one()
    return now
