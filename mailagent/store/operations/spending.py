"""What the calls of the model came to, by day: each process counts a day once and then what was added."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from threading import Lock

from mailagent.domain.operations.budget import day_begins_at
from mailagent.domain.operations.cost import Tokens, plus
from mailagent.store.database import Database
from mailagent.store.operations import model_calls

# Asked by each run, answered from memory for so long.
KEPT = timedelta(seconds=5)
# What is recorded now may be committed a little later; what is older is not counted again.
SETTLED_AFTER = timedelta(seconds=60)
DAY = timedelta(days=1)

Use = Mapping[str, Tokens]  # by the name of the model


class Spending:
    """Counts the tokens of a day by model, for one process; safe to be shared by threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked_at: datetime | None = None
        self._settled_until: datetime | None = None
        self._settled: Use = {}
        self._today: Use = {}
        self._past: dict[datetime, Use] = {}

    def of_today(
        self, database: Database, now: datetime, statement_seconds: float | None = None
    ) -> Use:
        """Return what today's calls took until a few seconds ago. `statement_seconds`: as for a snapshot."""
        with self._lock:
            asked_at = self._asked_at
            if asked_at is None or not timedelta(0) <= now - asked_at < KEPT:
                self._count(database, now, statement_seconds)
            return self._today

    def of_days(self, database: Database, now: datetime, days: int) -> list[tuple[datetime, Use]]:
        """Return today and the days before it, the newest first."""
        today = day_begins_at(now)
        found = [(today, self.of_today(database, now))]
        for number in range(1, days):
            begins_at = today - number * DAY
            if begins_at not in self._past:
                with database.snapshot() as connection:
                    use = model_calls.sum_between(connection, begins_at, begins_at + DAY)
                if now - (begins_at + DAY) < SETTLED_AFTER:
                    found.append((begins_at, use))
                    continue
                self._past[begins_at] = use
            found.append((begins_at, self._past[begins_at]))
        return found

    def _count(self, database: Database, now: datetime, statement_seconds: float | None) -> None:
        begins_at = day_begins_at(now)
        settled, until = self._settled, self._settled_until
        if until is None or not begins_at <= until <= now:  # another day, or a clock put back
            settled, until = {}, begins_at
        settle_until = max(until, now - SETTLED_AFTER)
        with database.snapshot(statement_seconds) as connection:
            if settle_until > until:
                more = model_calls.sum_between(connection, until, settle_until)
                settled = plus(settled, more)
            today = plus(settled, model_calls.sum_between(connection, settle_until, None))
        self._settled, self._settled_until = settled, settle_until
        self._today, self._asked_at = today, now
