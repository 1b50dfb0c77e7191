"""Replays, cancels and deletes runs. What a replay does to mail and money depends on the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from dbos import DBOSClient, SetWorkflowID
from dbos import error as dbos_error

from mailagent.engine import APPLICATION_VERSION, CONVERSATION, QUEUE_OF, WAKE_TOPIC
from mailagent.engine.run import Run, first_step_to_repeat, no_such_run
from mailagent.engine.runs import Runs

DELETED_AT_ONCE = 500


class Refusal(StrEnum):
    """Why a run is not replayed or cancelled."""

    UNKNOWN = "unknown"
    AT_WORK = "at work"
    ENDED = "ended"
    MOVED_ON = "moved on"  # it ran or was forked after the person opened the page
    NO_SUCH_STEP = "no such step"
    NOT_OURS = "not ours"  # DBOS refuses, or the schedule starts the next one anyway


class ReplayRefused(Exception):
    """The run cannot be replayed as asked; the text says why and what to do at the command line."""

    def __init__(self, refusal: Refusal, words: str) -> None:
        super().__init__(words)
        self.refusal = refusal


class Replays:
    """Runs a run again, in place or as a fork; cancels one; deletes histories."""

    def __init__(
        self,
        dbos: DBOSClient,
        runs: Runs,
        engine: sa.Engine,
        before_replay: Callable[[sa.Connection, Run], None] | None,
    ) -> None:
        self._dbos = dbos
        self._runs = runs
        self._engine = engine
        self._before_replay = before_replay

    def replay_run(self, run_id: str, from_step: int | None = None) -> Run:
        """Run a finished run again in place, keeping what it recorded before `from_step`.

        Without `from_step` it starts at the step that failed, or at the first. It neither sends a mail nor
        pays a refund twice: their keys are the rows', not the run's.

        Raises ReplayRefused for an unknown run, an active one, or a step it does not have.
        """
        run, start = self._load_ended(run_id, from_step)
        self._prepare_rows(run)
        try:
            self._dbos.rewind_workflow(run_id, start_step=start, **_place_of(run))
        except dbos_error.DBOSException as refusal:
            raise ReplayRefused(
                Refusal.NOT_OURS, f"DBOS refuses to rewind {run_id}: {refusal}"
            ) from refusal
        # A rewind deletes the run's messages; without a new one it could wait for one that was sent before.
        self._dbos.send(run_id, WAKE_TOPIC, topic=WAKE_TOPIC)
        return run

    def fork_run(
        self, run_id: str, from_step: int | None = None, number: int | None = None
    ) -> tuple[Run, str]:
        """Start a new run with a copy of what a finished run recorded before `from_step`. The finished run
        stays as it is. Returns it, and the id of the fork.

        `number`: the number of the new fork (1, 2, …) as the person saw it; if that fork exists, the call is
        refused. Raises ReplayRefused as `replay_run` does.
        """
        run, start = self._load_ended(run_id, from_step)
        following = self._runs.next_fork_number(run_id)
        if number is not None and number != following:
            raise ReplayRefused(
                Refusal.MOVED_ON, f"run {run_id} was forked meanwhile: look at it again first"
            )
        # Of two forks that are asked for at once, DBOS refuses the second: they have the same id.
        fork_id = f"{run_id}-fork-{following}"
        self._prepare_rows(run)
        try:
            with SetWorkflowID(fork_id):
                self._dbos.fork_workflow(run_id, start, **_place_of(run))
        except (dbos_error.DBOSException, sa.exc.IntegrityError) as refusal:
            raise ReplayRefused(
                Refusal.MOVED_ON,
                f"DBOS refuses to fork {run_id} as {fork_id} ({type(refusal).__name__}): look again first",
            ) from refusal
        # A fork gets no messages of its origin; one that starts at a wait must read its row.
        self._dbos.send(fork_id, WAKE_TOPIC, topic=WAKE_TOPIC)
        return run, fork_id

    def _prepare_rows(self, run: Run) -> None:
        if self._before_replay is not None:
            with self._engine.begin() as connection:
                self._before_replay(connection, run)

    def _load_ended(self, run_id: str, from_step: int | None) -> tuple[Run, int]:
        """Return a run that can be replayed, and the step to begin with."""
        run = self._runs.find_run(run_id, with_steps=True)
        if run is None:
            raise ReplayRefused(Refusal.UNKNOWN, no_such_run(run_id))
        if run.workflow not in QUEUE_OF:
            raise ReplayRefused(
                Refusal.NOT_OURS, f"{run_id} is a {run.workflow}: the next one does the same"
            )
        if run.is_active:
            raise ReplayRefused(
                Refusal.AT_WORK,
                f"run {run_id} is {run.status} and goes on by itself; to replay it, first run "
                f"`flask runs cancel {run_id}`",
            )
        start = from_step if from_step is not None else first_step_to_repeat(run)
        last = max((step.number for step in run.steps), default=0)
        if not 1 <= start <= last + 1:
            raise ReplayRefused(
                Refusal.NO_SUCH_STEP,
                f"run {run_id} has steps 1 to {last}; {start} is not among them",
            )
        return run, start

    def cancel_run(self, run_id: str) -> Run:
        """Cancel an active run; its rows stay as they are. Raises ReplayRefused if there is no such run or it
        has ended."""
        run = self._runs.find_run(run_id)
        if run is None:
            raise ReplayRefused(Refusal.UNKNOWN, no_such_run(run_id))
        if not run.is_active:
            raise ReplayRefused(
                Refusal.ENDED, f"run {run_id} has ended already: it is {run.status}"
            )
        self._dbos.cancel_workflow(run_id)
        return run

    def delete_histories(self, run_ids: Sequence[str]) -> None:
        """Delete runs that have ended. They can then be neither read nor replayed."""
        for start in range(0, len(run_ids), DELETED_AT_ONCE):
            self._dbos.delete_workflows(list(run_ids[start : start + DELETED_AT_ONCE]))


def _place_of(run: Run) -> dict[str, Any]:
    """Return the queue, the partition and the application version for a run's next start."""
    return {
        "application_version": APPLICATION_VERSION,
        "queue_name": QUEUE_OF[run.workflow],
        "queue_partition_key": (
            run.partition_key or run.subject if run.workflow == CONVERSATION else None
        ),
    }
