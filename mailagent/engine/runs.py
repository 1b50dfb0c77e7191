"""Reads runs from DBOS: one, those of a row, those that failed, page by page; and queue depths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.operations.run_about import attributes_to_search
from mailagent.domain.text import is_one_line
from mailagent.engine.client import Part
from mailagent.engine.names import (
    ACTIVE,
    CONVERSATION,
    DELIVERY,
    FAILED,
    QUEUE_OF,
    REFUND,
    SCHEDULED,
)
from mailagent.engine.run import RecordedStep, Run, error_text, read_instant, read_run

_OURS = (CONVERSATION, REFUND, DELIVERY)
_DAY_MILLISECONDS = 86_400_000


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted: of these DBOS states (a failed run that another replaces, a fork or a later run
    about the same row, has none that can be asked for), of these workflows (without any, all but the sweep),
    about something a person names (an id, or a customer's address), begun in a span of time. `after` is the
    position of the last run of the page before."""

    statuses: Collection[str] = ()
    workflows: Collection[str] = _OURS
    about: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    after: str | None = None


def position_of(run: Run) -> str:
    """Return where a run stands in a list, for the next page to begin behind it."""
    return f"{_milliseconds(run.created_at)}.{run.run_id}"


def parse_position(text: str) -> str | None:
    """Return a position that stands in an address, or None for anything else."""
    at, _, run_id = text.partition(".")
    sound = at.isascii() and at.isdigit() and len(at) <= 15 and is_one_line(run_id)
    return text if sound and run_id else None


OTHER_QUEUE = "other"  # that of the schedule, which DBOS names


class Runs(Part):
    """Looks at runs. Nothing here changes one."""

    def find_run(self, run_id: str, with_steps: bool = False) -> Run | None:
        """Return a run, or None when DBOS does not know it."""
        found = self._client.list_workflows(workflow_ids=[run_id])
        if not found:
            return None
        return read_run(found[0], self._steps(run_id) if with_steps else ())

    def find_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return those of the runs that exist, by id."""
        if not run_ids:
            return {}
        found = self._client.list_workflows(workflow_ids=list(run_ids))
        return {each.workflow_id: read_run(each) for each in found}

    def find_latest(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return, by the id of each run that exists, the run that counts for its row: of the run, its forks
        and their forks the one at work, else the one that ended last. A fork counts wherever it was made."""
        known = self.find_runs(run_ids)
        latest = {run_id: known[run_id] for run_id in run_ids if run_id in known}
        forked = [run_id for run_id, run in known.items() if run.was_forked_from]
        while forked:
            forks = map(read_run, self._client.list_workflows(forked_from=forked))
            fresh = {fork.run_id: fork for fork in forks if fork.run_id not in known}
            known |= fresh
            forked = [fork.run_id for fork in fresh.values() if fork.was_forked_from]
        for fork in known.values():
            origin = known.get(fork.forked_from or "")
            while origin is not None:
                if origin.run_id in latest:
                    # The later of two within a second, which is all that DBOS tells on SQLite, is first.
                    latest[origin.run_id] = max(fork, latest[origin.run_id], key=_counts)
                origin = known.get(origin.forked_from or "")
        return latest

    def list_runs(
        self, status: str | None = None, subject: str | None = None, limit: int = 50
    ) -> list[Run]:
        """Return the latest runs, newest first; of one DBOS status, or about one thing."""
        statuses = () if status is None else (status,)
        return self.list_page(RunFilter(statuses=statuses, about=subject), limit)

    def list_page(self, wanted: RunFilter, limit: int = 50) -> list[Run]:
        """Return runs that a filter lets through, newest first."""
        with self._engine.connect() as connection:
            run_ids = list(connection.scalars(self._page(wanted).limit(limit)))
        found = self.find_runs(run_ids)
        return [found[run_id] for run_id in run_ids if run_id in found]

    def _page(self, wanted: RunFilter) -> sa.Select[str]:
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).order_by(
            runs.created_at.desc(), runs.workflow_uuid.desc()
        )
        query = query.where(runs.name.in_(sorted(wanted.workflows)))
        if wanted.statuses:
            query = query.where(runs.status.in_(sorted(wanted.statuses)), ~self._is_replaced())
        if wanted.since is not None:
            query = query.where(runs.created_at >= _milliseconds(wanted.since))
        if wanted.before is not None:
            query = query.where(runs.created_at < _milliseconds(wanted.before))
        if wanted.after is not None:
            at, _, run_id = wanted.after.partition(".")
            place = sa.tuple_(sa.literal(int(at)), sa.literal(run_id))
            query = query.where(sa.tuple_(runs.created_at, runs.workflow_uuid) < place)
        return query if wanted.about is None else query.where(self._is_about(wanted.about))

    def _is_about(self, term: str) -> sa.ColumnElement[bool]:
        """Whether a run carries what a person looks for.

        PostgreSQL has an index for it, which its planner would leave aside for the one of the order: so
        the runs are found first. SQLite looks at all of them.
        """
        runs = self._runs.c
        wanted = attributes_to_search(term)
        if self._is_sqlite:
            return sa.or_(
                *(
                    sa.func.json_extract(runs.attributes, f"$.{name}") == value
                    for each in wanted
                    for name, value in each.items()
                )
            )
        carries = sa.or_(*(runs.attributes.contains(each) for each in wanted))
        found = sa.select(runs.workflow_uuid).where(carries).cte("found")
        return runs.workflow_uuid.in_(
            sa.select(found.prefix_with("MATERIALIZED", dialect="postgresql").c.workflow_uuid)
        )

    def list_forks(self, run_id: str) -> list[Run]:
        """Return the forks of a run, the oldest first."""
        found = self._client.list_workflows(forked_from=run_id, load_input=False, load_output=False)
        return [read_run(each) for each in found]

    def list_pending(self) -> list[Run]:
        """Return the runs that some worker has begun and not ended, the longest untouched first."""
        found = self._client.list_workflows(
            status="PENDING", name=list(_OURS), limit=1000, load_input=False, load_output=False
        )
        return [read_run(each) for each in found]

    def list_failed(self, connection: sa.Connection, since: datetime) -> list[str]:
        """Return the runs that failed since a time and that no other run replaces, the sweep's own too,
        oldest first."""
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).where(
            runs.status.in_(sorted(FAILED)),
            runs.name.in_((*_OURS, *SCHEDULED)),
            runs.completed_at >= _milliseconds(since),
            ~self._is_replaced(),
        )
        return list(connection.scalars(query.order_by(runs.completed_at)))

    def failed_runs(self) -> sa.Select[Any]:
        """Return the question which runs have failed and were not replaced since: run_id, workflow, status, and
        when, in milliseconds since 1970. Of the sweeps of a day the last one that failed stands for all."""
        runs = self._runs.c
        sweeps = self._runs.alias("sweeps").c
        last = sa.func.max(sweeps.workflow_uuid)  # their ids end in the minute they were due
        days = sa.func.coalesce(sweeps.completed_at, sweeps.updated_at) // _DAY_MILLISECONDS
        of_each_day = sa.select(last).where(_has_failed(sweeps.status), sweeps.name.in_(SCHEDULED))
        return sa.select(
            runs.workflow_uuid.label("run_id"),
            runs.name.label("workflow"),
            runs.status,
            sa.func.coalesce(runs.completed_at, runs.updated_at).label("failed_ms"),
        ).where(
            _has_failed(runs.status),
            ~self._is_replaced(),
            sa.or_(
                runs.name.in_(_OURS),
                runs.workflow_uuid.in_(of_each_day.group_by(sweeps.name, days)),
            ),
        )

    def _is_replaced(self) -> sa.ColumnElement[bool]:
        """Whether another run counts instead of a failed one: a fork that was made after it failed, or a later
        run of the same workflow about the same row that ended well."""
        runs, forks, later = self._runs.c, self._runs.alias("forks").c, self._runs.alias("later").c
        failed_at = sa.func.coalesce(runs.completed_at, runs.updated_at)
        forked_since = sa.exists().where(
            forks.forked_from == runs.workflow_uuid, forks.created_at >= failed_at
        )
        done_since = sa.exists().where(
            later.name == runs.name,
            later.status == "SUCCESS",
            later.created_at >= failed_at,
            self._has_subject_of(later.attributes, runs.attributes),
        )
        was_forked = sa.and_(runs.was_forked_from.is_(sa.true()), forked_since)
        return sa.and_(_has_failed(runs.status), sa.or_(was_forked, done_since))

    def _has_subject_of(
        self, attributes: sa.ColumnElement[Any], others: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """Whether two runs are about the same row. PostgreSQL has an index for it as it is asked here."""
        if self._is_sqlite:
            subject, other = (
                sa.func.json_extract(each, "$.subject") for each in (attributes, others)
            )
            return subject == other
        wanted = sa.func.jsonb_build_object(
            "subject", sa.func.jsonb_extract_path(others, "subject")
        )
        return sa.and_(others.has_key("subject"), attributes.contains(wanted))

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
                error=error_text(step["error"]),
                started_at=read_instant(step["started_at_epoch_ms"]),
            )
            for step in self._client.list_workflow_steps(run_id)
        )

    def count_active(self, connection: sa.Connection) -> Counter[tuple[str, str, str]]:
        """Return how many there are of each queue, workflow and status; 0 where there are none."""
        nothing = {(QUEUE_OF[each], each, status): 0 for each in QUEUE_OF for status in ACTIVE}
        found = Counter(nothing)
        for statuses in (("ENQUEUED", "PENDING"), ("DELAYED",)):
            for queue, workflow, status, number in connection.execute(self._active(statuses)):
                if workflow in (*QUEUE_OF, *SCHEDULED):
                    known = queue if queue in QUEUE_OF.values() else OTHER_QUEUE
                    found[known, workflow, status] += number
        return found

    def _active(self, statuses: tuple[str, ...]) -> sa.Select[Any]:
        runs = self._runs.c
        # As constants: a partial index is found by them only.
        named: list[Any] = [sa.literal_column(f"'{status}'") for status in statuses]
        return (
            sa.select(runs.queue_name, runs.name, runs.status, sa.func.count())
            .where(runs.status.in_(named))
            .group_by(runs.queue_name, runs.name, runs.status)
        )


def _counts(run: Run) -> tuple[bool, datetime]:
    return run.is_active, run.updated_at


def _has_failed(status: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    # Constants, not parameters: DBOS's index of failed runs is found by them.
    return status.in_([sa.literal_column(f"'{each}'") for each in sorted(FAILED)])


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
