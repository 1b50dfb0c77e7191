"""DBOS's system tables: only this module and `runs` read them, and only this one writes them.

Everything else uses DBOS's client, which cannot do what stands here: work in our transaction, change many runs
at once, find the runs of all workers but some, search attributes on SQLite, and list page by page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from mailagent.domain.operations.run_about import attributes_to_search
from mailagent.engine import (
    ACTIVE,
    FAILED,
    INTERNAL_QUEUE,
    OTHER_QUEUE,
    QUEUE_OF,
    REFUND,
    SCHEDULED,
    SWEEP,
)
from mailagent.engine.replaced import has_failed, is_one_of, is_replaced
from mailagent.engine.run import OldRun, RunFilter

_OURS = (*QUEUE_OF, *SCHEDULED)
_COLUMNS = (
    "workflow_uuid", "name", "status", "executor_id", "application_version", "created_at", "updated_at",
    "completed_at", "forked_from", "was_forked_from", "queue_name", "owner_xid", "started_at_epoch_ms",
)  # fmt: skip
_DAY_MILLISECONDS = 86_400_000

# A sweep each minute, a slow one, and the time that a worker takes to start.
LATE_AFTER = timedelta(minutes=3)


class SystemTables:
    """Queries of DBOS's system tables, in the caller's transaction."""

    def __init__(self, is_sqlite: bool) -> None:
        self._is_sqlite = is_sqlite
        self._schema = None if is_sqlite else "dbos"
        columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in _COLUMNS]
        columns.append(sa.column("attributes", sa.Text if is_sqlite else JSONB))
        self._runs = sa.table("workflow_status", *columns, schema=self._schema)
        columns = [sa.column(name) for name in ("destination_uuid", "created_at_epoch_ms")]
        self._messages = sa.table("notifications", *columns, schema=self._schema)

    def _attribute(self, runs: Any, name: str = "subject") -> sa.ColumnElement[str]:
        if self._is_sqlite:
            return sa.func.json_extract(runs.attributes, f"$.{name}", type_=sa.Text)
        return runs.attributes[name].astext  # type: ignore[no-any-return]

    def _subject(self, runs: Any) -> sa.ColumnElement[str]:
        """Return the attribute as our index has it: a constant, not a parameter."""
        if self._is_sqlite:
            return self._attribute(runs)
        return runs.attributes.op("->>")(sa.literal_column("'subject'"))  # type: ignore[no-any-return]

    def _is_about(self, wanted: Sequence[Mapping[str, str]]) -> sa.ColumnElement[bool]:
        runs = self._runs.c
        if self._is_sqlite:
            pairs = [pair for each in wanted for pair in each.items()]
            return sa.or_(*(self._attribute(runs, name) == value for name, value in pairs))
        # DBOS's index of attributes serves "contains" only.
        return sa.or_(*(runs.attributes.contains(each) for each in wanted))

    # --- runs that wait for a message -------------------------------------------------------------

    def find_active(self, connection: sa.Connection, run_id: str) -> str | None:
        """Return a run if it is active, else its newest active fork, or None."""
        runs = self._runs.c
        for whose in (runs.workflow_uuid == run_id, runs.forked_from == run_id):
            query = sa.select(runs.workflow_uuid).where(whose, runs.status.in_(sorted(ACTIVE)))
            found: str | None = connection.scalar(query.order_by(runs.created_at.desc()).limit(1))
            if found is not None:
                return found
        return None

    def find_origin(self, connection: sa.Connection, run_id: str) -> str:
        """Return the first run from which a run was forked, directly or through other forks."""
        runs, parents = self._runs.c, self._runs.alias("parents")
        parent_of = sa.select(parents.c.workflow_uuid).where(
            runs.forked_from == parents.c.workflow_uuid
        )
        origin = run_id
        while parent := connection.scalar(parent_of.where(runs.workflow_uuid == origin)):
            origin = parent
        return origin

    def list_not_woken(
        self,
        connection: sa.Connection,
        where_moved_on: Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]],
        before: datetime,
    ) -> list[str]:
        """Return the runs that began before a time, got no message, and whose refund has changed since.
        `where_moved_on` takes the column of the refund's id, and returns the condition that it has changed."""
        runs, messages = self._runs.c, self._messages.c
        was_woken = sa.exists().where(
            messages.destination_uuid == runs.workflow_uuid,
            messages.created_at_epoch_ms >= runs.started_at_epoch_ms,
        )
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING",
            runs.name == REFUND,
            runs.started_at_epoch_ms < _milliseconds(before),
            ~was_woken,
            where_moved_on(self._attribute(self._runs.c)),
        )
        return list(connection.scalars(query))

    def list_pending(
        self, connection: sa.Connection, workflow: str, subjects: Sequence[str]
    ) -> list[str]:
        """Return the runs of a workflow that have begun and not ended, and that are about these rows."""
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name == workflow, self._attribute(runs).in_(subjects)
        )
        return list(connection.scalars(query))

    # --- recovery ---------------------------------------------------------------------------------

    def take_over_orphans(
        self, connection: sa.Connection, alive: sa.Select[str], may: sa.ColumnElement[bool]
    ) -> int:
        """Enqueue again, if the condition `may` holds, the runs of workers that the query `alive` leaves out.

        Returns how many runs that were, not counting scheduled runs.
        """
        executor = sa.func.coalesce(self._runs.c.executor_id, "")
        return self._enqueue_again(connection, sa.and_(executor.not_in(alive), may))

    def requeue_runs_of(self, connection: sa.Connection, worker_id: str) -> int:
        """Enqueue again what a worker has begun and will not end. Returns how many runs that were."""
        whose = self._runs.c.executor_id == worker_id
        return self._enqueue_again(connection, whose, skip_locked=False)

    def find_started(
        self, connection: sa.Connection, worker_id: str, ago: timedelta
    ) -> frozenset[str]:
        """Return the runs that a worker started at least `ago` before now and that have not ended."""
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name.in_(_OURS), self._was_started(worker_id, ago)
        )
        return frozenset(connection.scalars(query))

    def enqueue_unattended(
        self, connection: sa.Connection, worker_id: str, run_ids: Iterable[str], ago: timedelta
    ) -> int:
        """Enqueue again those of the runs that `find_started` still finds. Returns how many, without scheduled
        ones."""
        whose = sa.and_(
            self._runs.c.workflow_uuid.in_(list(run_ids)), self._was_started(worker_id, ago)
        )
        return self._enqueue_again(connection, whose)

    def _was_started(self, worker_id: str, ago: timedelta) -> sa.ColumnElement[bool]:
        runs, milliseconds = self._runs.c, int(ago.total_seconds() * 1000)
        return sa.and_(
            runs.executor_id == worker_id,
            runs.started_at_epoch_ms <= self._now_milliseconds() - milliseconds,
        )

    def _enqueue_again(
        self, connection: sa.Connection, whose: sa.ColumnElement[bool], skip_locked: bool = True
    ) -> int:
        """Do what DBOS's own recovery does (`SystemDatabase.reenqueue_for_recovery`), for many runs at once.

        A run loses its owner, so that the worker that had it can record nothing more. With `skip_locked` two
        workers that recover at once share the runs.
        """
        runs = self._runs.c
        found = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name.in_(_OURS), whose
        )
        locked = found.with_for_update(skip_locked=skip_locked)
        names = connection.scalars(
            sa.update(self._runs)
            .where(runs.workflow_uuid.in_(locked), runs.status == "PENDING")
            .values(
                status="ENQUEUED",
                owner_xid=None,
                started_at_epoch_ms=None,
                updated_at=self._now_milliseconds(),
                queue_name=sa.func.coalesce(runs.queue_name, INTERNAL_QUEUE),
            )
            .returning(runs.name)
        )
        return sum(name in QUEUE_OF for name in names)

    def _now_milliseconds(self) -> sa.ColumnElement[int]:
        if self._is_sqlite:
            return sa.cast(sa.func.strftime("%s", "now") * 1000, sa.BigInteger)
        return sa.cast(sa.func.extract("epoch", sa.func.now()) * 1000, sa.BigInteger)

    def is_sweep_late(self, connection: sa.Connection, now: datetime) -> bool:
        """Return whether no sweep is active and none has ended lately. `now` is the database's time."""
        runs = self._runs.c
        since, until = _milliseconds(now - LATE_AFTER), _milliseconds(now + LATE_AFTER)
        recent = (runs.completed_at.between(since, until), runs.status.in_(sorted(ACTIVE)))
        # One query for each: no index serves both.
        queries = [sa.select(sa.literal(1)).where(runs.name == SWEEP, each) for each in recent]
        return not any(connection.scalar(query.limit(1)) for query in queries)

    # --- retention --------------------------------------------------------------------------------

    def list_old(
        self,
        connection: sa.Connection,
        before: datetime,
        limit: int,
        after: OldRun | None = None,
        *,
        scheduled: bool,
    ) -> list[OldRun]:
        """Return runs whose history may be deleted, oldest first, from behind `after`.

        `scheduled`: scheduled runs that were created before a time and did not fail. Unfinished ones, too:
        later runs did their work. Otherwise: all other runs that ended before that time.
        """
        runs = self._runs.c
        unneeded = sa.and_(runs.name.in_(SCHEDULED), runs.status.not_in(sorted(FAILED)))
        ended = sa.and_(self._has_ended(before), ~unneeded)
        query = (
            sa.select(runs.workflow_uuid, runs.name, self._attribute(runs), runs.created_at)
            .where(runs.created_at < _milliseconds(before), unneeded if scheduled else ended)
            .order_by(runs.created_at, runs.workflow_uuid)
            .limit(limit)
        )
        if after is not None:
            place = sa.tuple_(sa.literal(after.created_ms), sa.literal(after.run_id))
            query = query.where(sa.tuple_(runs.created_at, runs.workflow_uuid) > place)
        return [
            OldRun(run_id, name, subject or "", created_ms)
            for run_id, name, subject, created_ms in connection.execute(query)
        ]

    def delete_old(
        self, connection: sa.Connection, run_ids: Sequence[str], before: datetime
    ) -> list[str]:
        """Delete these runs, and return which were deleted. DBOS's own deletion ignores a run's status.

        Each run is read again under its lock. A run stays if it was replayed meanwhile, if one of its forks is
        active, or if another process has locked it.
        """
        runs, forks = self._runs.c, self._runs.alias("forks").c
        has_active_fork = sa.exists().where(
            forks.forked_from == runs.workflow_uuid, forks.status.in_(sorted(ACTIVE))
        )
        locked = list(
            connection.scalars(
                sa.select(runs.workflow_uuid)
                .where(
                    runs.workflow_uuid.in_(run_ids),
                    runs.created_at < _milliseconds(before),
                    sa.or_(self._has_ended(before), runs.name.in_(SCHEDULED)),
                    ~has_active_fork,
                )
                .order_by(runs.workflow_uuid)
                .with_for_update(skip_locked=True, of=self._runs)
            )
        )
        if locked and self._is_sqlite:
            # Without it the text stays in the file until SQLite writes over it.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        # The run's row comes last: its messages, events and streams have a foreign key to it.
        tables = ("workflow_input", "workflow_output", "operation_outputs", "workflow_status")
        for name in tables if locked else ():
            table = sa.table(name, sa.column("workflow_uuid"), schema=self._schema)
            connection.execute(sa.delete(table).where(table.c.workflow_uuid.in_(locked)))
        return locked

    def _has_ended(self, before: datetime) -> sa.ColumnElement[bool]:
        runs = self._runs.c
        ended_at = sa.func.coalesce(runs.completed_at, runs.updated_at)
        return sa.and_(runs.status.not_in(sorted(ACTIVE)), ended_at < _milliseconds(before))

    # --- lists and counts -------------------------------------------------------------------------

    def list_page(self, connection: sa.Connection, wanted: RunFilter, limit: int) -> list[str]:
        """Return the runs that a filter lets through, newest first."""
        runs = self._runs.c
        query = sa.select(runs.workflow_uuid).where(runs.name.in_(sorted(wanted.workflows)))
        if wanted.statuses:
            query = query.where(
                runs.status.in_(sorted(wanted.statuses)), ~is_replaced(self._runs, self._subject)
            )
        if wanted.since is not None:
            query = query.where(runs.created_at >= _milliseconds(wanted.since))
        if wanted.before is not None:
            query = query.where(runs.created_at < _milliseconds(wanted.before))
        if wanted.after is not None:
            at, _, run_id = wanted.after.partition(".")
            place = sa.tuple_(sa.literal(int(at)), sa.literal(run_id))
            query = query.where(sa.tuple_(runs.created_at, runs.workflow_uuid) < place)
        if wanted.about is not None:
            is_about = self._is_about(attributes_to_search(wanted.about))
            # MATERIALIZED: otherwise PostgreSQL prefers the index of the order to that of the attributes.
            found = sa.select(runs.workflow_uuid).where(is_about).cte("found")
            found_first = found.prefix_with("MATERIALIZED", dialect="postgresql")
            query = query.where(runs.workflow_uuid.in_(sa.select(found_first.c.workflow_uuid)))
        newest_first = query.order_by(runs.created_at.desc(), runs.workflow_uuid.desc())
        return list(connection.scalars(newest_first.limit(limit)))

    def list_about(self, connection: sa.Connection, subjects: Sequence[str]) -> dict[str, str]:
        """Return the runs about these rows, and the status of each."""
        runs = self._runs.c
        is_about = self._is_about([{"subject": subject} for subject in subjects])
        found = connection.execute(sa.select(runs.workflow_uuid, runs.status).where(is_about))
        return {row.workflow_uuid: row.status for row in found}

    def list_failed(
        self,
        connection: sa.Connection,
        since: datetime,
        is_open: Callable[[sa.Connection, sa.Subquery], sa.ColumnElement[bool]],
    ) -> list[str]:
        """Return the `failed_runs` since a time that are open, oldest first."""
        failed = self.failed_runs().subquery()
        query = sa.select(failed.c.run_id).where(
            failed.c.failed_ms >= _milliseconds(since), is_open(connection, failed)
        )
        return list(connection.scalars(query.order_by(failed.c.failed_ms)))

    def failed_runs(self) -> sa.Select[Any]:
        """Return a query of the failed runs that no other run replaces: run_id, workflow, subject, status,
        failed_ms. Of a scheduled workflow it has only the last failed run of each day."""
        runs = self._runs.c
        scheduled = self._runs.alias("scheduled").c
        days = sa.func.coalesce(scheduled.completed_at, scheduled.updated_at) // _DAY_MILLISECONDS
        last_of_each_day = (
            sa.select(sa.func.max(scheduled.workflow_uuid))  # these ids sort by time
            .where(has_failed(scheduled.status), scheduled.name.in_(SCHEDULED))
            .group_by(scheduled.name, days)
        )
        return sa.select(
            runs.workflow_uuid.label("run_id"),
            runs.name.label("workflow"),
            self._attribute(runs).label("subject"),
            runs.status,
            sa.func.coalesce(runs.completed_at, runs.updated_at).label("failed_ms"),
        ).where(
            has_failed(runs.status),
            ~is_replaced(self._runs, self._subject),
            sa.or_(runs.name.in_(tuple(QUEUE_OF)), runs.workflow_uuid.in_(last_of_each_day)),
        )

    def count_active(self, connection: sa.Connection) -> Counter[tuple[str, str, str]]:
        """Return how many active runs each queue, workflow and status has; 0 where there are none."""
        runs = self._runs.c
        found = Counter(
            {(QUEUE_OF[each], each, status): 0 for each in QUEUE_OF for status in ACTIVE}
        )
        for statuses in (("ENQUEUED", "PENDING"), ("DELAYED",)):  # DBOS has an index for each
            query = (
                sa.select(runs.queue_name, runs.name, runs.status, sa.func.count())
                .where(is_one_of(runs.status, statuses))
                .group_by(runs.queue_name, runs.name, runs.status)
            )
            for queue, workflow, status, number in connection.execute(query):
                if workflow in _OURS:
                    known = queue if queue in QUEUE_OF.values() else OTHER_QUEUE
                    found[known, workflow, status] += number
        return found


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
