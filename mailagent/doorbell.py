"""The doorbell of the workflows: their names, ids and queues, and how to make one look at its row.

A bell carries nothing of value. It is rung in the transaction that writes the row (so both exist or
neither does), and whoever hears it looks at the row. Nothing here runs a workflow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus
from dbos import error as dbos_error

CONVERSATION, REFUND, DELIVERY, SWEEP = "conversation", "refund", "delivery", "sweep"

CONVERSATIONS = "conversations"  # partitioned: one run per conversation at a time
REFUNDS = "refunds"
DELIVERIES = "deliveries"

QUEUE_OF = {CONVERSATION: CONVERSATIONS, REFUND: REFUNDS, DELIVERY: DELIVERIES}

LOOK = "look"  # the topic of every bell

ACTIVE = frozenset({"ENQUEUED", "PENDING", "DELAYED"})
FAILED = frozenset({"ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})

# Set by hand, like a schema version: recovery and queues hand a run only to workers of its version.
# Raise it only with a change that old runs cannot replay, and say so in CHANGELOG.md.
APPLICATION_NAME = "mailagent"
APPLICATION_VERSION = "1"


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step of a run's history, as DBOS recorded it."""

    number: int
    name: str
    output: Any
    error: str | None
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workflow, as DBOS sees it."""

    run_id: str
    workflow: str
    subject: str  # the conversation, refund or mail it looks after
    status: str
    created_at: datetime
    updated_at: datetime
    worker_id: str | None
    forked_from: str | None
    partition_key: str | None = None
    output: Any = None
    error: str | None = None
    steps: tuple[RecordedStep, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE


class ReplayRefused(Exception):
    """The run cannot be replayed as asked; the text says why and what to do."""


class Doorbell:
    """Rings workflows from any process, by name: no workflow code is imported for it."""

    def __init__(self, engine: sa.Engine) -> None:
        self._runs = _table_of_runs(None if engine.dialect.name == "sqlite" else "dbos")
        self._client = DBOSClient(
            system_database_engine=engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION_NAME,
            lazy=True,
            retry_connection_errors=False,
        )

    def close(self) -> None:
        self._client.destroy()

    # --- ringing, in the transaction of the row -------------------------------------------------

    def ring_conversation(
        self, connection: sa.Connection, conversation_id: str, mail_id: str, again: int = 0
    ) -> str:
        """Queue a run for the thread that a mail came into, and return the run's id.

        `again` counts the sweep's repeats, each of which needs an id of its own.
        """
        return self._enqueue(
            connection, CONVERSATION, run_id_of(CONVERSATION, mail_id, again), conversation_id
        )

    def ring_refund(
        self,
        connection: sa.Connection,
        refund_id: str,
        run_id: str | None,
        again: int | str = 0,
    ) -> str:
        """Make the run that looks after a refund look at its row; queue one when that has ended, or
        when there is none. Returns the run that looks after it now.

        `again` counts the sweep's repeats, or says why there is one more run, such as "decided".
        """
        if run_id is None or not self.is_at_work(connection, run_id):
            return self._enqueue(connection, REFUND, run_id_of(REFUND, refund_id, again), refund_id)
        self._client.send_in_transaction(connection, run_id, LOOK, topic=LOOK, send_to_forks=True)
        return run_id

    def ring_delivery(
        self, connection: sa.Connection, outbound_id: str, again: int | str = 0
    ) -> str:
        """Queue a run that sees to it that a mail of ours goes out, or is known not to.

        `again` tells apart why it is rung once more, such as "undelivered".
        """
        return self._enqueue(
            connection, DELIVERY, run_id_of(DELIVERY, outbound_id, again), outbound_id
        )

    def _enqueue(self, connection: sa.Connection, workflow: str, run_id: str, subject: str) -> str:
        options: dict[str, Any] = {
            "workflow_name": workflow,
            "queue_name": QUEUE_OF[workflow],
            "workflow_id": run_id,
            "attributes": {"subject": subject},
        }
        if workflow == CONVERSATION:
            options["queue_partition_key"] = subject
        self._client.enqueue_in_transaction(connection, options, subject)  # type: ignore[arg-type]  # a TypedDict built in two steps
        return run_id

    # --- looking and replaying ------------------------------------------------------------------

    def find_run(self, run_id: str, with_steps: bool = False) -> Run | None:
        """Return a run, or None when DBOS does not know it."""
        found = self._client.list_workflows(workflow_ids=[run_id])
        if not found:
            return None
        return _run(found[0], self._steps(run_id) if with_steps else ())

    def list_runs(
        self, status: str | None = None, subject: str | None = None, limit: int = 50
    ) -> list[Run]:
        """Return the latest runs, newest first; of one DBOS status, or of one row."""
        found = self._client.list_workflows(
            status=status,
            name=[CONVERSATION, REFUND, DELIVERY],
            limit=limit if subject is None else 1000,
            sort_desc=True,
        )
        runs = [_run(each) for each in found]
        return [run for run in runs if subject is None or run.subject == subject][:limit]

    def list_pending(self) -> list[Run]:
        """Return the runs that some worker has begun and not ended, the longest untouched first."""
        found = self._client.list_workflows(
            status="PENDING",
            name=[CONVERSATION, REFUND, DELIVERY],
            limit=1000,
            load_input=False,
            load_output=False,
        )
        return [_run(each) for each in found]

    def list_orphans(self, connection: sa.Connection, alive: Collection[str]) -> list[str]:
        """Return the runs that were begun and not ended by workers that are not among those alive."""
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING",
            runs.name.in_([CONVERSATION, REFUND, DELIVERY]),
            sa.func.coalesce(runs.executor_id, "").not_in(list(alive)),
        )
        return list(connection.scalars(query.order_by(runs.created_at)))

    def take_over(self, run_id: str) -> None:
        """Queue a run again whose worker has vanished. If that one lives after all, it can record
        nothing more: a run belongs to whoever took it last."""
        run = self.find_run(run_id)
        if run is None:
            return
        queue_name = QUEUE_OF[run.workflow]
        if queue_name == CONVERSATIONS and run.partition_key is None:
            # A fork made in the console has no key, and a partitioned queue never hands it out.
            # DBOS's own queue does; what a run may answer is settled by rows, not by its queue.
            self._client.resume_workflow(run_id)
        else:
            self._client.resume_workflow(run_id, queue_name=queue_name)

    def list_failed(self, connection: sa.Connection, since: datetime) -> list[str]:
        """Return the runs that failed since a time, the sweep's own too, oldest first."""
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).where(
            runs.status.in_(sorted(FAILED)),
            runs.name.in_([CONVERSATION, REFUND, DELIVERY, SWEEP]),
            runs.completed_at >= int(since.timestamp() * 1000),
        )
        return list(connection.scalars(query.order_by(runs.completed_at)))

    def cancel_run(self, run_id: str) -> Run:
        """Stop a run that has not ended; its rows stay as they are. Raises ReplayRefused."""
        run = self.find_run(run_id)
        if run is None:
            raise ReplayRefused(f"there is no run {run_id}; see `flask runs list`")
        if not run.is_active:
            raise ReplayRefused(f"run {run_id} has ended already: it is {run.status}")
        self._client.cancel_workflow(run_id)
        return run

    def find_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return those of the runs that exist, by id."""
        if not run_ids:
            return {}
        found = self._client.list_workflows(workflow_ids=list(run_ids))
        return {each.workflow_id: _run(each) for each in found}

    def is_at_work(self, connection: sa.Connection, run_id: str) -> bool:
        """Return, within the caller's transaction, whether a run has yet to end."""
        runs = self._runs.c
        status = connection.scalar(sa.select(runs.status).where(runs.workflow_uuid == run_id))
        return status in ACTIVE

    def missing_queues(self) -> list[str]:
        """Return the queues that no worker has registered yet."""
        known = {queue.name for queue in self._client.list_queues()}
        return sorted(set(QUEUE_OF.values()) - known)

    def _steps(self, run_id: str) -> tuple[RecordedStep, ...]:
        return tuple(
            RecordedStep(
                number=step["function_id"],
                name=step["function_name"],
                output=step["output"],
                error=_error_text(step["error"]),
                started_at=_instant(step["started_at_epoch_ms"]),
            )
            for step in self._client.list_workflow_steps(run_id)
        )

    def replay_run(self, run_id: str, from_step: int | None = None) -> Run:
        """Run a finished run again in place, keeping what it recorded before `from_step`.

        Without `from_step` it starts at the step that failed, or at the first. Neither mail nor money
        happens twice by it: identity is the row's, never the run's.

        Raises ReplayRefused for an unknown run, an active one, or a step it does not have.
        """
        run = self.find_run(run_id, with_steps=True)
        if run is None:
            raise ReplayRefused(f"there is no run {run_id}; see `flask runs list`")
        if run.workflow not in QUEUE_OF:
            raise ReplayRefused(f"{run_id} is a {run.workflow}: the next one does the same anew")
        if run.is_active:
            raise ReplayRefused(
                f"run {run_id} is {run.status}: it goes on by itself; `flask runs cancel {run_id}` "
                "stops it, then it can be replayed"
            )
        start = from_step if from_step is not None else first_step_to_repeat(run)
        last = max((step.number for step in run.steps), default=0)
        if not 1 <= start <= last + 1:
            raise ReplayRefused(f"run {run_id} has steps 1 to {last}; {start} is not among them")
        try:
            self._client.rewind_workflow(
                run_id,
                start_step=start,
                application_version=APPLICATION_VERSION,
                queue_name=QUEUE_OF[run.workflow],
                queue_partition_key=run.subject if run.workflow == CONVERSATION else None,
            )
        except dbos_error.DBOSException as refusal:
            raise ReplayRefused(f"DBOS refuses to rewind {run_id}: {refusal}") from refusal
        # A rewind takes the run's messages away; without a bell it could wait for one that has rung.
        self._client.send(run_id, LOOK, topic=LOOK)
        return run


def first_step_to_repeat(run: Run) -> int:
    """Return where a replay starts unless it is told: the first step that recorded an error.

    A failed run without one failed in its body, after its last step: everything recorded is kept.
    """
    for step in run.steps:
        if step.error is not None:
            return step.number
    if run.status in FAILED:
        return max((step.number for step in run.steps), default=0) + 1
    return 1


def run_id_of(workflow: str, row_id: str, again: int | str = 0) -> str:
    """Return the id of the run that is queued for a row; `again` tells later ones apart."""
    name = f"{workflow}-{row_id.partition('_')[2]}"
    return f"{name}-{again}" if again else name


def matter_of(run: Run) -> str:
    """Return what a run was queued for: the same for all repeats. A fork is a matter of its own; all
    sweeps of a day are one."""
    if run.workflow == SWEEP:
        return f"{SWEEP}-{run.created_at:%Y-%m-%d}"
    if not run.run_id.startswith(f"{run.workflow}-"):
        return run.run_id
    return "-".join(run.run_id.split("-")[:2])


def _table_of_runs(schema: str | None) -> sa.TableClause:
    """Describe DBOS's documented table of runs, for questions that its client cannot be asked: within
    our transaction (it opens connections of its own), and about all workers but some."""
    names = ("workflow_uuid", "name", "status", "executor_id", "created_at", "completed_at")
    return sa.table("workflow_status", *(sa.column(name) for name in names), schema=schema)


def _run(status: WorkflowStatus, steps: tuple[RecordedStep, ...] = ()) -> Run:
    # An input that cannot be read is left as text by DBOS; one such run must not hide the others.
    arguments = status.input["args"] if isinstance(status.input, dict) else ("",)
    return Run(
        run_id=status.workflow_id,
        workflow=status.name,
        subject=str((status.attributes or {}).get("subject") or arguments[0]),
        status=status.status,
        created_at=_instant(status.created_at) or datetime.fromtimestamp(0, UTC),
        updated_at=_instant(status.updated_at) or datetime.fromtimestamp(0, UTC),
        worker_id=status.executor_id,
        forked_from=status.forked_from,
        partition_key=status.queue_partition_key,
        output=status.output,
        error=_error_text(status.error),
        steps=steps,
    )


def _error_text(error: Exception | None) -> str | None:
    return None if error is None else str(error) or type(error).__name__


def _instant(epoch_milliseconds: int | None) -> datetime | None:
    if epoch_milliseconds is None:
        return None
    return datetime.fromtimestamp(epoch_milliseconds / 1000, UTC)
