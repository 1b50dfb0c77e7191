"""Reads runs from DBOS: one, those about a row, and lists page by page. Changes none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
from dbos import DBOSClient

from mailagent.domain.operations.replay import RecordedStep
from mailagent.engine import ACTIVE, APPLICATION_VERSION, QUEUE_OF
from mailagent.engine.run import FailedStep, Run, RunFilter, error_text, read_instant, read_run
from mailagent.engine.tables import SystemTables

SUBJECTS_AT_ONCE = 50
CountReplays = Callable[[sa.Connection, Sequence[str]], Mapping[str, int]]


class Runs:
    """Finds runs, their forks and their steps, and what DBOS knows of versions and queues."""

    def __init__(
        self,
        dbos: DBOSClient,
        tables: SystemTables,
        engine: sa.Engine,
        count_replays: CountReplays | None = None,
    ) -> None:
        self._dbos = dbos
        self._tables = tables
        self._engine = engine
        self._count_replays = count_replays

    def find_run(self, run_id: str, with_steps: bool = False) -> Run | None:
        """Return a run, or None when DBOS does not know it."""
        found = self._dbos.list_workflows(workflow_ids=[run_id])
        if not found:
            return None
        run = read_run(found[0], self._steps(run_id) if with_steps else ())
        return self._with_failures([run])[0]

    def _with_failures(self, runs: Sequence[Run]) -> list[Run]:
        failed = [run.run_id for run in runs if run.has_failed]
        if not failed:
            return list(runs)
        with self._engine.connect() as connection:
            steps = _find_failed_steps(connection, failed)
            replays = self._count_replays(connection, failed) if self._count_replays else {}
        return [
            replace(run, failed_step=steps.get(run.run_id), replays=replays.get(run.run_id, 0))
            for run in runs
        ]

    def _steps(self, run_id: str) -> tuple[RecordedStep, ...]:
        return tuple(
            RecordedStep(
                number=step["function_id"],
                name=step["function_name"],
                output=step["output"],
                error=error_text(step["error"]),
                started_at=read_instant(step["started_at_epoch_ms"]),
            )
            for step in self._dbos.list_workflow_steps(run_id)
        )

    def find_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return those of the runs that exist, by id."""
        if not run_ids:
            return {}
        found = self._dbos.list_workflows(workflow_ids=list(run_ids))
        return {run.run_id: run for run in self._with_failures([*map(read_run, found)])}

    def find_latest(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return, by the id of each of these runs that exists, the run that counts for its row. Of the run and
        all its forks that is the active one, else the one that ended last."""
        known = self.find_runs(run_ids)
        latest = {run_id: known[run_id] for run_id in run_ids if run_id in known}
        forked = [run_id for run_id, run in known.items() if run.was_forked_from]
        while forked:
            forks = map(read_run, self._dbos.list_workflows(forked_from=forked))
            fresh = {fork.run_id: fork for fork in forks if fork.run_id not in known}
            known |= fresh
            forked = [fork.run_id for fork in fresh.values() if fork.was_forked_from]
        for fork in known.values():
            origin = known.get(fork.forked_from or "")
            while origin is not None:
                if origin.run_id in latest:
                    # On SQLite times are whole seconds: of two that are equal, `max` returns the first.
                    latest[origin.run_id] = max(
                        fork, latest[origin.run_id], key=lambda run: (run.is_active, run.updated_at)
                    )
                origin = known.get(origin.forked_from or "")
        return latest

    def list_runs(
        self, status: str | None = None, subject: str | None = None, limit: int = 50
    ) -> list[Run]:
        """Return the latest runs, newest first. `status`: only those of a DBOS status. `subject`: only those
        about an id or a customer's address."""
        statuses = () if status is None else (status,)
        return self.list_page(RunFilter(statuses=statuses, about=subject), limit)

    def list_page(self, wanted: RunFilter, limit: int = 50) -> list[Run]:
        """Return the runs that a filter lets through, newest first."""
        with self._engine.connect() as connection:
            run_ids = self._tables.list_page(connection, wanted, limit)
        found = self.find_runs(run_ids)
        return [found[run_id] for run_id in run_ids if run_id in found]

    def list_forks(self, run_id: str) -> list[Run]:
        """Return the forks of a run, the oldest first."""
        found = self._dbos.list_workflows(forked_from=run_id, load_input=False, load_output=False)
        return [read_run(each) for each in found]

    def next_fork_number(self, run_id: str) -> int:
        """Return the number of the next fork of a run, above those of its forks. Some may have been deleted,
        and some have ids of DBOS's without a number."""
        forks, begins = self.list_forks(run_id), f"{run_id}-fork-"
        numbers = [each.run_id.removeprefix(begins) for each in forks]
        return max([len(forks), *(int(each) for each in numbers if each.isdecimal())]) + 1

    def list_histories(self, subjects: Sequence[str]) -> dict[str, str]:
        """Return the status of every run about these rows, forks included, by id."""
        found: dict[str, str] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(subjects), SUBJECTS_AT_ONCE):
                some = subjects[start : start + SUBJECTS_AT_ONCE]
                found |= self._tables.list_about(connection, some)
        origins = list(found)
        while origins:
            forks = self._dbos.list_workflows(
                forked_from=origins, load_input=False, load_output=False
            )
            fresh = {run.workflow_id: run.status for run in forks if run.workflow_id not in found}
            found |= fresh
            origins = list(fresh)
        return found

    def missing_queues(self) -> list[str]:
        """Return the queues that no worker has registered yet."""
        known = {queue.name for queue in self._dbos.list_queues()}
        return sorted(set(QUEUE_OF.values()) - known)

    def latest_version(self) -> str | None:
        """Return the application version whose workers get new runs; None before a worker has run."""
        known = self._dbos.list_application_versions()  # the latest first
        return known[0]["version_name"] if known else None

    def count_of_other_versions(self) -> dict[str, int]:
        """Return how many active runs wait for workers of another application version, by version."""
        known = [each["version_name"] for each in self._dbos.list_application_versions()]
        others = [version for version in known if version != APPLICATION_VERSION]
        if not others:
            return {}
        found = self._dbos.list_workflows(
            status=sorted(ACTIVE), app_version=others, load_input=False, load_output=False
        )
        return dict(Counter(str(each.app_version) for each in found))


def _find_failed_steps(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, FailedStep]:
    """Return the first step of each of these runs that recorded an error. DBOS's client would read all steps of
    one run at a time, with everything that they returned."""
    schema = None if connection.dialect.name == "sqlite" else "dbos"
    names = ("workflow_uuid", "function_id", "function_name", "error")
    columns: list[sa.ColumnClause[str]] = [sa.column(name) for name in names]
    steps = sa.table("operation_outputs", *columns, schema=schema).c
    query = sa.select(steps.workflow_uuid, steps.function_id, steps.function_name).where(
        steps.workflow_uuid.in_(run_ids), steps.error.is_not(None)
    )
    last_first = connection.execute(query.order_by(steps.function_id.desc()))
    return {run_id: FailedStep(int(number), name) for run_id, number, name in last_first}
