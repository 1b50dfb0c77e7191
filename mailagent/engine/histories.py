"""Histories of runs that have to go: what was recorded of them holds what customers wrote."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.engine.client import Connected

DELETED_AT_ONCE = 500
LOOKED_FOR_AT_ONCE = 50


class Histories(Connected):
    """Finds and deletes all that was recorded of the runs of some rows."""

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
