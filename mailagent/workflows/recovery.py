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
from mailagent.engine.tables import LATE_AFTER
from mailagent.store.operations import metric_figures, workers

logger = logging.getLogger(__name__)

# Chosen at random in between: workers that were started together must not all recover at the same moment.
BEAT_SECONDS = (4.0, 6.0)
# On shutdown, the longest wait for a running heartbeat, and for a lock. After that the other workers detect
# the missing lease.
LEAVE_SECONDS = 3.0
SWEEP_CHECK_SECONDS = 60.0
COUNTERS_SECONDS = 60.0
# A worker that takes a run begins it within milliseconds.
UNATTENDED_AFTER = timedelta(minutes=1)

# Returns the ids of the runs that this process executes, including those that wait; None if it cannot tell.
RunsHere = Callable[[], frozenset[str] | None]


class Heartbeat:
    """A thread that renews the worker's lease, and after each renewal recovers workflows."""

    def __init__(self, runs_here: RunsHere = lambda: None) -> None:
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._worker_id = ""
        self._beat_file: Path | None = None
        self._sweep_check_at = self._counters_at = 0.0
        self._unattended = Unattended(runs_here)

    def start(self, worker_id: str, beat_file: Path | None = None) -> None:
        """Sign this worker in, and start the thread. Call this before the worker takes its first run: others
        take over the runs of a worker that has no lease.

        `beat_file` is touched at every beat, even if the database is away: it shows that the process lives.
        """
        self._worker_id, self._beat_file = worker_id, beat_file
        self._stopping = threading.Event()
        self._sweep_check_at = time.monotonic() + LATE_AFTER.total_seconds()
        self._attempt("could not renew its lease; trying again", self._sign_in)
        self._touch()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Sign out, and enqueue unfinished runs again: other workers continue them at once."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(LEAVE_SECONDS)
        self._thread = None
        self._attempt("could not sign out; its lease ends by itself", self._sign_out)

    def _run(self) -> None:
        while not self._stopping.wait(random.uniform(*BEAT_SECONDS)):  # noqa: S311 - no secret
            if self._attempt("could not renew its lease; trying again", self._sign_in):
                self._attempt("could not take over runs; trying again", take_over)
                self._attempt(
                    "could not check its own runs; trying again",
                    lambda: self._unattended.look(self._worker_id),
                )
                self._attempt("could not check the schedule; trying again", self._check_sweeps)
                self._attempt("could not update the counters; trying again", self._update_counters)
            else:
                self._unattended.forget()
            self._touch()

    def _attempt(self, problem: str, task: Callable[[], object]) -> bool:
        """Do a task and return whether it was done. If the database fails, the next beat tries again."""
        try:
            task()
        except sa.exc.SQLAlchemyError:
            logger.exception("worker=%s event=heartbeat_failed: %s", self._worker_id, problem)
            return False
        return True

    def _sign_in(self) -> None:
        with services.current().database.transaction() as connection:
            workers.sign_in(connection, self._worker_id)

    def _sign_out(self) -> None:
        live = services.current()
        with live.database.transaction() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LEAVE_SECONDS:g}s'"))
            workers.sign_out(connection, self._worker_id)
            live.workflow_client.tables.requeue_runs_of(connection, self._worker_id)

    def _touch(self) -> None:
        if self._beat_file is None:
            return
        try:
            self._beat_file.touch()
        except OSError as problem:
            logger.warning(
                "worker=%s event=beat_file_failed: a health check may find it dead: %s",
                self._worker_id,
                problem,
            )

    def _check_sweeps(self) -> None:
        if time.monotonic() >= self._sweep_check_at:
            self._sweep_check_at = time.monotonic() + SWEEP_CHECK_SECONDS
            enqueue_late_sweep()

    def _update_counters(self) -> None:
        if time.monotonic() >= self._counters_at:
            self._counters_at = time.monotonic() + COUNTERS_SECONDS
            update_counters()


def enqueue_late_sweep() -> bool:
    """Enqueue a sweep if the schedule has started none for minutes; return whether one was missing."""
    live = services.current()
    with live.database.snapshot() as connection:
        late = live.workflow_client.tables.is_sweep_late(connection, live.now())
    if late:
        logger.warning("event=sweep_late: the schedule started none for minutes; enqueueing one")
        with live.database.transaction() as connection:
            live.workflow_client.queue.enqueue_sweep(connection, live.now())
    return late


def update_counters() -> None:
    """Bring the counters of `/metrics` up to date: count the rows that were added since the last call."""
    live = services.current()
    for source in metric_figures.SOURCES:
        with live.database.transaction() as connection:
            metric_figures.move_on(connection, source, live.now())


def take_over() -> int:
    """Enqueue again the runs of workers whose lease ended, in one transaction. Returns how many.

    Several workers may do so at once. If a worker without a lease still lives, it can record nothing more for
    these runs: a run belongs to the worker that took it last.
    """
    live = services.current()
    with live.database.transaction() as connection:
        taken = live.workflow_client.tables.take_over_orphans(
            connection, workers.alive(connection), workers.where_dead_without_lease(connection)
        )
    if taken:
        logger.warning("event=runs_taken_over: took over %s runs of dead workers", taken)
    return taken


class Unattended:
    """Finds runs that this worker has taken but does not execute, for example because the database's answer was
    lost. It enqueues a run again only when two checks in a row find it."""

    def __init__(self, runs_here: RunsHere) -> None:
        self._runs_here = runs_here
        self._seen: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Forget what the last check found."""
        self._seen = frozenset()

    def look(self, worker_id: str) -> int:
        """Check this worker's runs, and enqueue again those that the last check found, too. Returns how many,
        not counting scheduled runs. Raises SQLAlchemyError if the database fails."""
        seen_before, self._seen = self._seen, frozenset()
        live = services.current()
        tables = live.workflow_client.tables
        with live.database.snapshot() as connection:
            started = tables.find_started(connection, worker_id, UNATTENDED_AFTER)
        here = self._runs_here()
        if here is None:
            return 0
        self._seen = started - here
        twice = self._seen & seen_before
        if not twice:
            return 0
        with live.database.transaction() as connection:
            count = tables.enqueue_unattended(connection, worker_id, twice, UNATTENDED_AFTER)
        logger.warning(
            "worker=%s event=runs_unattended: enqueued %s runs again that it had and did not run",
            worker_id,
            count,
        )
        return count
