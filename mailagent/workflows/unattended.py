"""Runs that this worker has taken and that nobody runs: queued again, by the worker itself.

The answer to the claim of a run may be lost although it was committed, and the end of a run may be one
that cannot be recorded. Then it is pending under a worker that lives and has no thread for it: no other
may take it over, and the sweep takes it for one that is at work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from mailagent import services

logger = logging.getLogger(__name__)

# Who took a run begins it within milliseconds.
UNATTENDED_AFTER = timedelta(minutes=1)

# Returns the ids of the runs that this process executes, those that wait included; None if it cannot tell.
RunsHere = Callable[[], frozenset[str] | None]


class Unattended:
    """Looks twice before it queues a run again: one that is just about to begin, or to be recorded as
    ended, is left alone. Should it be wrong all the same, whoever has the run can record nothing more."""

    def __init__(self, runs_here: RunsHere) -> None:
        self._runs_here = runs_here
        self._seen: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Begin anew: the next look is a first one."""
        self._seen = frozenset()

    def look(self, worker_id: str) -> int:
        """Queue again what was unattended at the last look, too. Returns how many runs that were, those of
        the schedule not counted. Raises SQLAlchemyError if the database is in trouble."""
        seen_before, self._seen = self._seen, frozenset()
        live = services.current()
        with live.database.snapshot() as connection:
            taken = live.doorbell.find_taken(connection, worker_id, UNATTENDED_AFTER)
        here = self._runs_here()
        if here is None:
            return 0
        self._seen = taken - here
        again = self._seen & seen_before
        if not again:
            return 0
        with live.database.transaction() as connection:
            queued = live.doorbell.queue_unattended(connection, worker_id, again, UNATTENDED_AFTER)
        logger.warning("queued %s runs again that worker %s had and did not run", queued, worker_id)
        return queued
