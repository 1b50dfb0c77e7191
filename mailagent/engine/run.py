"""A run of a workflow as DBOS recorded it, read into values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dbos import WorkflowStatus

from mailagent.engine.names import ACTIVE, FAILED, SCHEDULED

# DBOSMaxStepRetriesExceeded, as DBOS keeps it.
_TRIED_TOO_OFTEN = "has exceeded its maximum of"


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
    """One run of a workflow, as DBOS sees it. `attributes` are what it can be found by."""

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
    attributes: Mapping[str, str] = field(default_factory=dict)
    was_forked_from: bool = False

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def outlasted(self) -> bool:
        """Whether it failed only because the database was away for longer than a step tries: nothing else
        is tried more than once (`workflows.steps.recording`)."""
        return self.has_failed and _TRIED_TOO_OFTEN in (self.error or "")

    @property
    def has_failed(self) -> bool:
        return self.status in FAILED


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


def no_such_run(run_id: str) -> str:
    """Return what the command line says of a run that DBOS does not know."""
    return (
        f"there is no run {run_id}, or it ended so long ago that its history is not kept any more "
        "(RUN_DAYS); see `flask runs list`"
    )


def subject_of(run: Run) -> str:
    """Return what a run was queued for: the same for all repeats, and for forks that we made. One made
    elsewhere is an incident of its own; all sweeps of a day are one."""
    if run.workflow in SCHEDULED:
        return f"{run.workflow}-{run.created_at:%Y-%m-%d}"
    if not run.run_id.startswith(f"{run.workflow}-"):
        return run.run_id
    return "-".join(run.run_id.split("-")[:2])


def read_run(status: WorkflowStatus, steps: tuple[RecordedStep, ...] = ()) -> Run:
    """Return what DBOS says of a run."""
    # An input that cannot be read is left as text by DBOS; one such run must not hide the others.
    arguments = status.input["args"] if isinstance(status.input, dict) else ("",)
    # What DBOS keeps there itself, such as a trace, is no text.
    attributes = {
        name: value for name, value in (status.attributes or {}).items() if isinstance(value, str)
    }
    return Run(
        run_id=status.workflow_id,
        workflow=status.name,
        subject=str(attributes.get("subject") or arguments[0]),
        status=status.status,
        created_at=read_instant(status.created_at) or datetime.fromtimestamp(0, UTC),
        updated_at=read_instant(status.updated_at) or datetime.fromtimestamp(0, UTC),
        worker_id=status.executor_id,
        forked_from=status.forked_from,
        partition_key=status.queue_partition_key,
        output=status.output,
        error=error_text(status.error),
        steps=steps,
        attributes=attributes,
        was_forked_from=bool(status.was_forked_from),
    )


def error_text(error: Exception | None) -> str | None:
    return None if error is None else str(error) or type(error).__name__


def read_instant(epoch_milliseconds: int | None) -> datetime | None:
    if epoch_milliseconds is None:
        return None
    return datetime.fromtimestamp(epoch_milliseconds / 1000, UTC)
