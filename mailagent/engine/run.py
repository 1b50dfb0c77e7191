"""A run of a workflow as DBOS recorded it, read into values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mailagent.domain.operations.replay import RecordedStep
from mailagent.domain.text import Fill, error_message, fill, is_one_line, tell_error
from mailagent.engine import (
    ACTIVE,
    FAILED,
    GIVEN_UP,
    PUT_OFF,
    QUEUE_OF,
    RETURNED,
    SCHEDULED,
    UNDELIVERED,
)

if TYPE_CHECKING:  # slow to import
    from dbos import WorkflowStatus


@dataclass(frozen=True, slots=True)
class FailedStep:
    """The first step of a run that recorded an error."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workflow, as DBOS recorded it. `attributes`: texts by which operators find it."""

    run_id: str
    workflow: str
    subject: str  # the id of the conversation, refund or mail it is about
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
    was_forked_from: bool = False  # it has forks
    attempts: int = 0  # how many workers have begun it since it was enqueued or replayed
    replays: int = 0  # how often a person has replayed it in place; counted for failed runs only
    failed_step: FailedStep | None = None
    error_kind: str | None = None  # the name of the error's class

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def outlasted(self) -> bool:
        """Whether it failed because the database was unavailable for longer than a step retries."""
        return self.has_failed and self.error_kind == "DatabaseUnavailableError"

    @property
    def why(self) -> str:
        """Why it failed, in words for operators; masked."""
        if self.outlasted:
            return fill(OUTLASTED, why=tell_error(self.error))
        return tell_error(self.error)

    @property
    def is_bug(self) -> bool:
        """Whether it failed because of a mistake in the program or in its data."""
        known = self.error_kind == "NeedsOperatorError" or self.outlasted
        return self.status == "ERROR" and not known

    @property
    def was_taken_over(self) -> bool:
        """Whether another worker began it again, because the one before it crashed or was stopped."""
        return self.attempts > 1

    @property
    def attempt(self) -> int:
        """The number of its latest attempt. The attempts before ended with a crash, a replay or a fork."""
        forks = sum(map(int, re.findall(r"-fork-(\d+)", self.run_id)))
        if self.forked_from and not forks:  # by another tool, which gives other ids
            forks = 1
        return max(1, self.attempts) + self.replays + forks

    @property
    def has_failed(self) -> bool:
        return self.status in FAILED

    @property
    def was_put_off(self) -> bool:
        """Whether it ended because a provider could not be asked; another run answers the mail."""
        return self.status == "SUCCESS" and self.output == PUT_OFF


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted: by DBOS status (then without failed runs that another run replaces), by workflow,
    by an id or a customer's address, and by the time they were created.

    `after` is the position of the last run of the page before.
    """

    statuses: Collection[str] = ()
    workflows: Collection[str] = tuple(QUEUE_OF)
    about: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    after: str | None = None


def position_of(run: Run) -> str:
    """Return the position of a run in a list; the next page begins after it."""
    return f"{round(run.created_at.timestamp() * 1000)}.{run.run_id}"


def parse_position(text: str) -> str | None:
    """Return a position that stands in a URL, or None for anything else."""
    at, _, run_id = text.partition(".")
    is_number = at.isascii() and at.isdigit() and len(at) <= 15
    return text if is_number and run_id and is_one_line(run_id) else None


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run whose history may be old enough to delete. `subject`: the row it is about."""

    run_id: str
    workflow: str
    subject: str
    created_ms: int


def first_step_to_repeat(run: Run) -> int:
    """Return the step at which a replay starts by default: the first one that recorded an error.

    A failed run without such a step failed in its body. Then all recorded steps are kept.
    """
    for step in run.steps:
        if step.error is not None:
            return step.number
    if run.status in FAILED:
        return max((step.number for step in run.steps), default=0) + 1
    return 1


# Pages translate these messages; the text of an error stays as it was recorded.
OUTLASTED = "the database was unavailable for minutes (%(why)s)"
_GIVEN_UP = "its worker crashed or was stopped %(attempts)s times"
_AT_STEP = "step %(number)s, %(step)s: %(why)s"
_AFTER_STEP = "after step %(number)s, %(step)s: %(why)s"
_ATTEMPT = "attempt %(number)s: %(why)s"
FAILURES = (OUTLASTED, _GIVEN_UP, _AT_STEP, _AFTER_STEP, _ATTEMPT)


def tell_failure(run: Run, _: Fill = fill) -> str:
    """Return in one line why a run failed: the step, the attempt unless it was the first, and the error,
    masked. Of a run that was given up, it names the last step that was recorded, if the steps were read. `_`
    puts facts into a message, and may translate it."""
    if run.status == GIVEN_UP:
        why = _(_GIVEN_UP, attempts=run.attempts)
        last = run.steps[-1] if run.steps else None
        return _(_AFTER_STEP, number=last.number, step=last.name, why=why) if last else why
    why = _(OUTLASTED, why=tell_error(run.error)) if run.outlasted else run.why
    if run.attempt > 1:
        why = _(_ATTEMPT, number=run.attempt, why=why)
    if run.failed_step is None:
        return why
    return _(_AT_STEP, number=run.failed_step.number, step=run.failed_step.name, why=why)


def no_such_run(run_id: str) -> str:
    return (
        f"there is no run {run_id}, or it ended more than RUN_DAYS ago and its history was deleted; "
        "see `flask runs list`"
    )


def subject_of(run: Run) -> str:
    """Return the key under which operators are told of a failed run only once. A run and our forks of it share
    a key, and so do the runs of a scheduled workflow on one day. A fork that was made by another tool has its
    own, and so has a run after a bounce: our mail had been sent by then."""
    if run.workflow in SCHEDULED:
        return f"{run.workflow}-{run.created_at:%Y-%m-%d}"
    if not run.run_id.startswith(f"{run.workflow}-"):
        return run.run_id
    parts = run.run_id.split("-")
    return "-".join(parts[: 3 if parts[2:3] in ([UNDELIVERED], [RETURNED]) else 2])


def read_run(status: WorkflowStatus, steps: tuple[RecordedStep, ...] = ()) -> Run:
    """Return a run from DBOS's record of it."""
    # DBOS adds attributes of its own, such as a trace, which are not text.
    attributes = {
        name: value for name, value in (status.attributes or {}).items() if isinstance(value, str)
    }
    return Run(
        run_id=status.workflow_id,
        workflow=status.name,
        subject=attributes.get("subject") or _first_argument(status),
        status=status.status,
        created_at=read_instant(status.created_at) or datetime.fromtimestamp(0, UTC),
        updated_at=read_instant(status.updated_at) or datetime.fromtimestamp(0, UTC),
        worker_id=status.executor_id,
        forked_from=status.forked_from,
        partition_key=status.queue_partition_key,
        output=status.output,
        error=error_text(status.error),
        error_kind=_kind_of(status.error) if status.error else None,
        steps=steps,
        attributes=attributes,
        was_forked_from=bool(status.was_forked_from),
        attempts=status.recovery_attempts or 0,
    )


def _first_argument(status: WorkflowStatus) -> str:
    """Return a run's first argument, or "" for none and for text that a database refuses. A run that a
    person enqueued by DBOS's client may have any arguments, and must not hide the others."""
    given = status.input
    if not isinstance(given, dict):  # DBOS leaves an input that it cannot read as text
        return ""
    first = str(next(iter((*given["args"], *given["kwargs"].values())), ""))
    return first if is_one_line(first) else ""


# The text of these errors needs no type before it.
_TOLD_BY_US = ("NeedsOperatorError", "StepFailedError", "DatabaseUnavailableError")


def error_text(error: Exception | None) -> str | None:
    """Return the type and the text of a recorded error. DBOS keeps its type by name."""
    if error is None:
        return None
    kind, text = _kind_of(error), str(error)
    if text and kind in _TOLD_BY_US:
        return text
    return f"{kind}: {error_message(kind, text)}" if text else kind


def _kind_of(error: Exception) -> str:
    return str(getattr(error, "name", None) or type(error).__name__)


def read_instant(epoch_milliseconds: int | None) -> datetime | None:
    if epoch_milliseconds is None:
        return None
    return datetime.fromtimestamp(epoch_milliseconds / 1000, UTC)
