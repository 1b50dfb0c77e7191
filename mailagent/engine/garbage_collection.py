"""Deletes DBOS's records of workflows that ended long ago, under their locks.

DBOS's own deletion takes ids whatever state the workflow is in, and waits for locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.engine.client import Part
from mailagent.engine.names import ACTIVE, FAILED, SCHEDULED
from mailagent.engine.run import read_run

# DBOS's tables of a run that do not go along with its row, having no foreign key.
_PAYLOADS = ("workflow_input", "workflow_output", "operation_outputs")


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run whose history may be old enough to go. `subject` is the row it looked after, if it is known;
    `created_ms` says where it stands among them."""

    run_id: str
    workflow: str
    subject: str
    created_ms: int


DELETED_AT_ONCE = 500
LOOKED_FOR_AT_ONCE = 50


class Histories(Part):
    """Finds and deletes DBOS's records of runs: by age, or all of some rows."""

    def list_ended_before(
        self,
        connection: sa.Connection,
        before: datetime,
        limit: int,
        after: OldRun | None = None,
    ) -> list[OldRun]:
        """Return runs that ended before a time, oldest first, beginning behind `after`. Not those that
        the schedule began."""
        runs = self._runs.c
        query = self._old(before, after).where(
            runs.status.not_in(sorted(ACTIVE)),
            sa.func.coalesce(runs.completed_at, runs.updated_at) < _milliseconds(before),
            sa.or_(runs.name.not_in(SCHEDULED), runs.status.in_(sorted(FAILED))),
        )
        return self._read(connection, query.limit(limit))

    def list_scheduled_before(
        self,
        connection: sa.Connection,
        before: datetime,
        limit: int,
        after: OldRun | None = None,
    ) -> list[OldRun]:
        """Return runs that the schedule began before a time, but for those that failed. One that has not
        ended by then lost its worker: later ones have done its work."""
        runs = self._runs.c
        query = self._old(before, after).where(
            runs.name.in_(SCHEDULED), runs.status.not_in(sorted(FAILED))
        )
        return self._read(connection, query.limit(limit))

    def _old(self, before: datetime, after: OldRun | None) -> sa.Select[Any]:
        # By the time of creation, which has an index; a run ends after that.
        runs = self._runs.c
        query = (
            sa.select(
                runs.workflow_uuid,
                runs.name,
                runs.created_at,
                _subject(self._is_sqlite, runs.attributes),
            )
            .where(runs.created_at < _milliseconds(before))
            .order_by(runs.created_at, runs.workflow_uuid)
        )
        if after is None:
            return query
        place = sa.tuple_(sa.literal(after.created_ms), sa.literal(after.run_id))
        return query.where(sa.tuple_(runs.created_at, runs.workflow_uuid) > place)

    def _read(self, connection: sa.Connection, query: sa.Select[Any]) -> list[OldRun]:
        rows = connection.execute(query).all()
        # Runs of earlier releases name their row in their input only.
        nameless = [row[0] for row in rows if not row[3] and row[1] not in SCHEDULED]
        found = self._client.list_workflows(workflow_ids=nameless) if nameless else []
        subjects = {each.workflow_id: read_run(each).subject for each in found}
        return [OldRun(row[0], row[1], row[3] or subjects.get(row[0], ""), row[2]) for row in rows]

    def delete_old(
        self, connection: sa.Connection, run_ids: Sequence[str], before: datetime
    ) -> list[str]:
        """Delete what was recorded of these runs, in the caller's transaction; return of which.

        Each is looked at once more under its lock: one that was replayed meanwhile stays, and so does
        one that has a fork at work. Those that another purge is at are left to it.
        """
        runs, forks = self._runs.c, self._runs.alias("forks").c
        ended = sa.and_(
            runs.status.not_in(sorted(ACTIVE)),
            sa.func.coalesce(runs.completed_at, runs.updated_at) < _milliseconds(before),
        )
        at_work = sa.exists().where(
            forks.forked_from == runs.workflow_uuid, forks.status.in_(sorted(ACTIVE))
        )
        locked = list(
            connection.scalars(
                sa.select(runs.workflow_uuid)
                .where(
                    runs.workflow_uuid.in_(run_ids),
                    runs.created_at < _milliseconds(before),
                    sa.or_(ended, runs.name.in_(SCHEDULED)),
                    ~at_work,
                )
                .order_by(runs.workflow_uuid)
                .with_for_update(skip_locked=True, of=self._runs)
            )
        )
        if locked:
            self._delete(connection, locked)
        return locked

    def _delete(self, connection: sa.Connection, run_ids: Sequence[str]) -> None:
        if self._is_sqlite:
            # Without it the words stay in the file until something else is written over them.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        # The row last: messages, events and streams go with it.
        for name in (*_PAYLOADS, "workflow_status"):
            key: sa.ColumnClause[str] = sa.column("workflow_uuid")
            table = sa.table(name, key, schema=self._runs.schema)
            connection.execute(sa.delete(table).where(table.c.workflow_uuid.in_(run_ids)))

    def list_histories(self, subjects: Sequence[str]) -> dict[str, str]:
        """Return the runs that look or looked after these rows, their forks included: id and status."""
        found: dict[str, str] = {}
        for start in range(0, len(subjects), LOOKED_FOR_AT_ONCE):
            found |= self._list_of(subjects[start : start + LOOKED_FOR_AT_ONCE])
        origins = list(found)
        while origins:
            forks = self._client.list_workflows(
                forked_from=origins, load_input=False, load_output=False
            )
            fresh = {run.workflow_id: run.status for run in forks if run.workflow_id not in found}
            found |= fresh
            origins = list(fresh)
        return found

    def _list_of(self, subjects: Sequence[str]) -> dict[str, str]:
        runs = self._runs.c
        theirs: sa.ColumnElement[bool]
        if self._is_sqlite:
            theirs = sa.func.json_extract(runs.attributes, "$.subject").in_(subjects)
        else:
            # One by one, as DBOS's index of attributes is asked.
            theirs = sa.or_(*(runs.attributes.contains({"subject": each}) for each in subjects))
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(runs.workflow_uuid, runs.status).where(theirs))
            return {row.workflow_uuid: row.status for row in rows}

    def delete_histories(self, run_ids: Sequence[str]) -> None:
        """Delete what was recorded of runs that have ended: they can be neither read nor replayed."""
        for start in range(0, len(run_ids), DELETED_AT_ONCE):
            self._client.delete_workflows(list(run_ids[start : start + DELETED_AT_ONCE]))


def _subject(sqlite: bool, attributes: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    if sqlite:
        return sa.func.json_extract(attributes, "$.subject")
    return attributes.op("->>")("subject")


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
