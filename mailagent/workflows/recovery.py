"""The worker's heartbeat, and the recovery of workflows of workers whose lease ended."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from mailagent import services
from mailagent.engine.recovery import LATE_AFTER
from mailagent.store.operations import metric_figures, workers

logger = logging.getLogger(__name__)

# Between these, by chance: workers that were started together would all look at the same moment.
BEAT_SECONDS = (4.0, 6.0)
# Whoever ends waits no longer for a beat under way or for somebody's lock: then it has to be missed.
LEAVE_SECONDS = 3.0
# From the time on when those of the schedule should have been seen.
SWEEPS_LOOKED_FOR_SECONDS = 60.0
# What the metrics count, up to some minutes ago.
COUNTERS_SECONDS = 60.0


class Heartbeat:
    """One thread that signs the worker in, again and again, and out at the end."""

    def __init__(self, runs_here: RunsHere = lambda: None) -> None:
        """`runs_here` returns the ids of the runs that this process executes; None if it cannot tell."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._worker_id = ""
        self._beat_file: Path | None = None
        self._looks_for_sweeps_at = self._counters_due_at = 0.0
        self._unattended = Unattended(runs_here)

    def start(self, worker_id: str, beat_file: Path | None = None) -> None:
        """Sign in. To be called before the first run is taken: whoever has one unsigned is an orphan.

        `beat_file` is touched at every beat, whatever became of it: a look at it tells that we live.
        """
        self._worker_id, self._beat_file = worker_id, beat_file
        self._stopping = threading.Event()
        self._looks_for_sweeps_at = time.monotonic() + LATE_AFTER.total_seconds()
        if self._beat():
            self._take_up_own()
        self._touch()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Sign out, and queue again what is unfinished: others go on with it at once."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(LEAVE_SECONDS)
        self._thread = None
        live = services.current()
        try:
            with live.database.transaction() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LEAVE_SECONDS:g}s'"))
                workers.sign_out(connection, self._worker_id)
                live.workflow_client.recovery.give_back(connection, self._worker_id)
        except sa.exc.SQLAlchemyError:
            logger.warning("worker %s could not sign out; it will be missed", self._worker_id)

    def _run(self) -> None:
        while not self._stopping.wait(random.uniform(*BEAT_SECONDS)):  # noqa: S311 - no secret
            if self._beat():
                self._look_for_orphans()
                self._look_for_unattended()
                self._look_for_sweeps()
                self._move_counters_on()
            else:
                self._unattended.forget()
            self._touch()

    def _touch(self) -> None:
        if self._beat_file is None:
            return
        try:
            self._beat_file.touch()
        except OSError as problem:
            logger.warning("worker %s cannot touch its beat file: %s", self._worker_id, problem)

    def _beat(self) -> bool:
        """Say that this worker lives; return whether it could."""
        try:
            with services.current().database.transaction() as connection:
                workers.sign_in(connection, self._worker_id)
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s could not say that it lives", self._worker_id)
            return False
        return True

    def _take_up_own(self) -> None:
        try:
            with services.current().database.transaction() as connection:
                taken = services.current().workflow_client.recovery.take_up(
                    connection, self._worker_id
                )
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s leaves its runs to the engine", self._worker_id)
            return
        if taken:
            logger.info("worker %s takes up %s runs again", self._worker_id, taken)

    def _look_for_orphans(self) -> None:
        try:
            take_over()
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s could not take runs over; it tries again", self._worker_id)

    def _look_for_unattended(self) -> None:
        try:
            self._unattended.look(self._worker_id)
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s could not look for its own runs", self._worker_id)

    def _move_counters_on(self) -> None:
        if time.monotonic() < self._counters_due_at:
            return
        try:
            more = move_counters_on()
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s could not count for the metrics", self._worker_id)
            more = False
        self._counters_due_at = time.monotonic() + (0.0 if more else COUNTERS_SECONDS)

    def _look_for_sweeps(self) -> None:
        if time.monotonic() < self._looks_for_sweeps_at:
            return
        self._looks_for_sweeps_at = time.monotonic() + SWEEPS_LOOKED_FOR_SECONDS
        try:
            see_to_sweeps()
        except sa.exc.SQLAlchemyError:
            logger.exception("worker %s could not look for sweeps", self._worker_id)


def see_to_sweeps() -> bool:
    """Begin a sweep if the schedule has begun none for minutes; return whether it was so."""
    live = services.current()
    with live.database.snapshot() as connection:
        late = live.workflow_client.recovery.is_sweep_late(connection, live.now())
    if late:
        logger.warning("the schedule began no sweep for minutes; one is begun for it")
        with live.database.transaction() as connection:
            live.workflow_client.recovery.enqueue_sweep(connection, live.now())
    return late


def move_counters_on() -> bool:
    """Count further what has come in and gone out; return whether there is more to count at once."""
    live = services.current()
    more = False
    for source in metric_figures.SOURCES:
        with live.database.transaction() as connection:
            more |= metric_figures.move_on(connection, source, live.now())
    return more


def take_over() -> int:
    """Queue the runs again whose worker has vanished, in one transaction. Returns how many.

    Any number of workers may do so at once. Should one that is missed live after all, it can record
    nothing more for them: a run belongs to whoever took it last.
    """
    live = services.current()
    with live.database.transaction() as connection:
        taken = live.workflow_client.recovery.take_over_orphans(
            connection, workers.alive(connection), workers.can_be_missed(connection)
        )
    if taken:
        logger.warning("took over %s runs of workers that have vanished", taken)
    return taken


# --- unattended -----------------------------------------------------------------------------------


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
            taken = live.workflow_client.recovery.find_taken(
                connection, worker_id, UNATTENDED_AFTER
            )
        here = self._runs_here()
        if here is None:
            return 0
        self._seen = taken - here
        again = self._seen & seen_before
        if not again:
            return 0
        with live.database.transaction() as connection:
            queued = live.workflow_client.recovery.queue_unattended(
                connection, worker_id, again, UNATTENDED_AFTER
            )
        logger.warning("queued %s runs again that worker %s had and did not run", queued, worker_id)
        return queued
