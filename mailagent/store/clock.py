"""One clock for all processes: the database's. Rows get its time, even if a machine's own clock is wrong.

PostgreSQL is asked now and then; in between, a monotonic clock measures the time since. On SQLite
there is one machine, and its clock counts. DBOS's own waits use the machine's clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.store.database import Database, open_database

logger = logging.getLogger(__name__)

# A clock drifts by some milliseconds in this time. If the database's clock is set, we notice it after this
# time.
ASK_AGAIN_AFTER_SECONDS = 30.0
# We log a larger difference. A machine without time synchronisation reaches it within weeks.
SKEW_WORTH_A_WORD = timedelta(seconds=5)
# SteadyClock hides a smaller step back, which is a correction, and follows a larger one.
CORRECTION = timedelta(seconds=5)

# Only Linux counts the time that a machine sleeps.
_UNSETTABLE: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class DatabaseClock:
    """Returns the database's time (UTC) when it is called, mostly without a query.

    `ask` asks the database; `machine` is this machine's clock, which may be wrong; `elapsed` is a
    monotonic clock in seconds, which on Linux also counts while the machine sleeps.
    """

    def __init__(
        self,
        ask: Callable[[], datetime],
        machine: Callable[[], datetime],
        elapsed: Callable[[], float],
    ) -> None:
        self._ask, self._machine, self._elapsed = ask, machine, elapsed
        self._asking = threading.Lock()
        self._asked_at = 0.0
        self._known: tuple[datetime, float] | None = None  # the database's time, and `elapsed` then
        self._told_skew = timedelta(0)

    def __call__(self) -> datetime:
        """Return the time in UTC. Raises the database's error if it was never reached: the time of a machine
        whose clock may be wrong must not get into rows."""
        at, elapsed_then = self._known or self._learn()
        elapsed_now = self._elapsed()
        if elapsed_now - self._asked_at > ASK_AGAIN_AFTER_SECONDS and self._asking.acquire(False):
            self._asked_at = elapsed_now
            # In a thread, because the caller may hold locks and must not wait if the database is away.
            threading.Thread(target=self._ask_again, name="clock", daemon=True).start()
        return at + timedelta(seconds=elapsed_now - elapsed_then)

    def _ask_again(self) -> None:
        try:
            self._learn()
        except sa.exc.SQLAlchemyError as problem:
            logger.warning(
                "event=clock_not_asked: the last answer counts: %s", type(problem).__name__
            )
        finally:
            self._asking.release()

    def _learn(self) -> tuple[datetime, float]:
        """Ask the database. Its answer counts as the time in the middle of the wait."""
        before = self._elapsed()
        answer = self._ask()
        self._asked_at = self._elapsed()
        self._known = known = answer, (before + self._asked_at) / 2
        self._tell_skew(self._machine() - answer)
        return known

    def _tell_skew(self, skew: timedelta) -> None:
        """Log if this machine's clock has become wrong, more wrong, or right again."""
        if abs(skew - self._told_skew) <= SKEW_WORTH_A_WORD:
            return
        if abs(skew) > SKEW_WORTH_A_WORD:
            logger.warning("event=clock_wrong: %s", tell_skew(skew))
        else:
            logger.warning(
                "event=clock_right: this machine's clock agrees with the database's again"
            )
        self._told_skew = skew


class SteadyClock:
    """A clock that does not go back when the machine's clock is corrected by less than CORRECTION, so that a
    later event never gets an earlier time."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: datetime | None = None

    def __call__(self) -> datetime:
        now = self._clock()
        with self._lock:
            latest = self._latest
            if latest is None or not latest - CORRECTION < now < latest:
                self._latest = latest = now
            return latest


def open_clock(database: Database) -> Callable[[], datetime]:
    """Return the clock that all processes on a database share. This does not connect yet."""
    if database.engine.dialect.name == "sqlite":
        return SteadyClock(machine_time)
    # With a pool of its own: the caller may hold a connection, and all others may be in use.
    apart = open_database(database.engine.url.render_as_string(hide_password=False), pool_size=0)
    return SteadyClock(DatabaseClock(lambda: ask_database(apart), machine_time, elapsed))


def ask_database(database: Database) -> datetime:
    """Return the time by the database's clock."""
    with database.snapshot() as connection:
        now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now


def find_skew(database: Database) -> timedelta:
    """Return by how much this machine's clock is ahead of the database's."""
    if database.engine.dialect.name == "sqlite":
        return timedelta(0)
    return machine_time() - ask_database(database)


def tell_skew(skew: timedelta) -> str:
    """Return a sentence for operators about this machine's wrong clock."""
    which = "ahead of" if skew > timedelta(0) else "behind"
    return (
        f"this machine's clock is {abs(skew).total_seconds():.0f} s {which} the database's: run a time"
        " service (NTP) on both. Dates hold, by the database's; waits may be too long by as much"
    )


def machine_time() -> datetime:
    return datetime.now(UTC)


def elapsed() -> float:
    """Return the seconds of a monotonic clock that on Linux also counts while the machine sleeps."""
    return time.clock_gettime(_UNSETTABLE)
