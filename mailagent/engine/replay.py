"""Replays and cancels runs. Rows decide what a replay does to mail and money."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from dbos import SetWorkflowID
from dbos import error as dbos_error

from mailagent.engine.client import Dbos, Part
from mailagent.engine.names import (
    APPLICATION_VERSION,
    CONVERSATION,
    QUEUE_OF,
    WAKE_TOPIC,
    fork_id_of,
)
from mailagent.engine.run import Run, first_step_to_repeat, no_such_run
from mailagent.engine.runs import Runs


class Refusal(StrEnum):
    """Why a run is not replayed or stopped."""

    UNKNOWN = "unknown"
    AT_WORK = "at work"
    ENDED = "ended"
    MOVED_ON = "moved on"  # it has run, or was forked, since its reader looked
    NO_SUCH_STEP = "no such step"
    NOT_OURS = "not ours"  # DBOS refuses, or the schedule runs it anyway


class ReplayRefused(Exception):
    """The run cannot be replayed as asked; the text says why and what to do at the command line."""

    def __init__(self, refusal: Refusal, words: str) -> None:
        super().__init__(words)
        self.refusal = refusal


class Replays(Part):
    """Runs a run again, in place or as a fork; stops one."""

    def __init__(self, dbos: Dbos, runs: Runs) -> None:
        super().__init__(dbos)
        self._found = runs

    def replay_run(self, run_id: str, from_step: int | None = None) -> Run:
        """Run a finished run again in place, keeping what it recorded before `from_step`.

        Without `from_step` it starts at the step that failed, or at the first. Neither mail nor money
        happens twice by it: identity is the row's, never the run's.

        Raises ReplayRefused for an unknown run, an active one, or a step it does not have.
        """
        run, start = self._load_ended(run_id, from_step)
        self._make_ready()
        try:
            self._client.rewind_workflow(run_id, start_step=start, **_place_of(run))
        except dbos_error.DBOSException as refusal:
            raise ReplayRefused(
                Refusal.NOT_OURS, f"DBOS refuses to rewind {run_id}: {refusal}"
            ) from refusal
        # A rewind takes the run's messages away; without a wake-up it could wait for one that was sent.
        self._client.send(run_id, WAKE_TOPIC, topic=WAKE_TOPIC)
        return run

    def fork_run(
        self, run_id: str, from_step: int | None = None, number: int | None = None
    ) -> tuple[Run, str]:
        """Start a new run with a copy of what a finished one recorded before `from_step`; that one stays
        as it is. Returns the run and the id of its fork.

        `number`: which fork of the run this is to be (1, 2, …), as its reader saw them; if there is one
        already it is not made again. Raises ReplayRefused as `replay_run` does.
        """
        run, start = self._load_ended(run_id, from_step)
        following = len(self._found.list_forks(run_id)) + 1
        if number is not None and number != following:
            raise ReplayRefused(
                Refusal.MOVED_ON,
                f"run {run_id} was forked since it was looked at: look again first",
            )
        fork_id = fork_id_of(run_id, following)
        self._make_ready()
        try:
            with SetWorkflowID(fork_id):
                self._client.fork_workflow(run_id, start, **_place_of(run))
        except (dbos_error.DBOSException, sa.exc.IntegrityError) as refusal:
            raise ReplayRefused(
                Refusal.MOVED_ON,
                f"DBOS refuses to fork {run_id} as {fork_id} ({type(refusal).__name__}): look again first",
            ) from refusal
        # Messages are not carried over to a fork: one that begins at its wait has to look.
        self._client.send(fork_id, WAKE_TOPIC, topic=WAKE_TOPIC)
        return run, fork_id

    def _make_ready(self) -> None:
        with self._engine.begin() as connection:
            self._before_replay(connection)

    def _load_ended(self, run_id: str, from_step: int | None) -> tuple[Run, int]:
        """Return a run that can be replayed, and the step to begin with."""
        run = self._found.find_run(run_id, with_steps=True)
        if run is None:
            raise ReplayRefused(Refusal.UNKNOWN, no_such_run(run_id))
        if run.workflow not in QUEUE_OF:
            raise ReplayRefused(
                Refusal.NOT_OURS, f"{run_id} is a {run.workflow}: the next one does the same anew"
            )
        if run.is_active:
            raise ReplayRefused(
                Refusal.AT_WORK,
                f"run {run_id} is {run.status}: it goes on by itself; `flask runs cancel {run_id}` "
                "stops it, then it can be replayed",
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
        """Stop a run that has not ended; its rows stay as they are. Raises ReplayRefused."""
        run = self._found.find_run(run_id)
        if run is None:
            raise ReplayRefused(Refusal.UNKNOWN, no_such_run(run_id))
        if not run.is_active:
            raise ReplayRefused(
                Refusal.ENDED, f"run {run_id} has ended already: it is {run.status}"
            )
        self._client.cancel_workflow(run_id)
        return run


def _place_of(run: Run) -> dict[str, Any]:
    """Return where a run is queued for its next start: it must find a worker of our version, and wait
    for its turn behind its customer's others."""
    return {
        "application_version": APPLICATION_VERSION,
        "queue_name": QUEUE_OF[run.workflow],
        "queue_partition_key": (
            run.partition_key or run.subject if run.workflow == CONVERSATION else None
        ),
    }
