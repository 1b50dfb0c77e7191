"""Replays and cancels runs. Rows decide what a replay does to mail and money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from dbos import SetWorkflowID
from dbos import error as dbos_error

from mailagent.engine.client import Connected
from mailagent.engine.names import (
    APPLICATION_VERSION,
    CONVERSATION,
    DELIVERY,
    QUEUE_OF,
    REFUND,
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


class Replays(Runs):
    """Runs a run again, in place or as a fork; stops one."""

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
        following = len(self.list_forks(run_id)) + 1
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
        run = self.find_run(run_id, with_steps=True)
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
        run = self.find_run(run_id)
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


# --- unheard --------------------------------------------------------------------------------------


# Says of a refund's id whether there is more to see than when its run began to wait.
HasMovedOn = Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]


class Unheard(Connected):
    """Wakes runs that wait for a wake-up that was sent already, and that they cannot have heard."""

    def wake_unheard(
        self, connection: sa.Connection, has_moved_on: HasMovedOn, before: datetime
    ) -> int:
        """Wake the runs of refunds that have moved on, begun before a time and not woken since they
        began; each once, for then it has been woken. Returns how many that were."""
        runs = self._runs.c
        notifications = self._notifications.c
        woken = (
            sa.select(sa.literal(1))
            .where(
                notifications.destination_uuid == runs.workflow_uuid,
                notifications.created_at_epoch_ms >= runs.started_at_epoch_ms,
            )
            .correlate(self._runs)
            .exists()
        )
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING",
            runs.name == REFUND,
            runs.started_at_epoch_ms < round(before.timestamp() * 1000),
            ~woken,
            has_moved_on(self._subject()),
        )
        unheard = list(connection.scalars(query))
        for run_id in unheard:
            self._client.send_in_transaction(connection, run_id, WAKE_TOPIC, topic=WAKE_TOPIC)
        return len(unheard)

    def wake_deliveries_at_work(
        self, connection: sa.Connection, outbound_ids: Sequence[str]
    ) -> None:
        """Wake the runs that wait with these mails of ours."""
        if not outbound_ids:
            return
        runs = self._runs.c
        waiting = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name == DELIVERY, self._subject().in_(outbound_ids)
        )
        for run_id in list(connection.scalars(waiting)):
            self._client.send_in_transaction(connection, run_id, WAKE_TOPIC, topic=WAKE_TOPIC)

    def is_answering(self, connection: sa.Connection, conversation_id: str) -> bool:
        """Return whether a run is at work on a conversation's mail."""
        runs = self._runs.c
        at_work = sa.select(sa.literal(1)).where(
            runs.status == "PENDING",
            runs.name == CONVERSATION,
            self._subject() == conversation_id,
        )
        return connection.scalar(at_work.limit(1)) is not None

    @property
    def _notifications(self) -> sa.TableClause:
        names = ("destination_uuid", "created_at_epoch_ms")
        schema = None if self._is_sqlite else "dbos"
        return sa.table("notifications", *(sa.column(name) for name in names), schema=schema)

    def _subject(self) -> sa.ColumnElement[str]:
        attributes = self._runs.c.attributes
        if self._is_sqlite:
            return sa.func.json_extract(attributes, "$.subject", type_=sa.Text)
        subject: sa.ColumnElement[str] = attributes["subject"].astext
        return subject
