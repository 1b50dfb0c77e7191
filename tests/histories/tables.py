"""Histories in DBOS's tables: put in as runs that a worker left behind, and read again afterwards."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from mailagent.engine import APPLICATION_NAME, WAKE_TOPIC
from mailagent.store.database import Database
from tests.histories.history import History, Step

WORKER = "test"  # the name of the harness's worker, which takes up what it left behind


class Tables:
    """DBOS's tables of one database, as far as a run's history goes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._prefix = "" if database.engine.dialect.name == "sqlite" else "dbos."

    def put(self, history: History, version: str | None = None) -> None:
        """Make a run pending whose worker ended just now; `version` is its own unless given."""
        with self._database.transaction() as connection:
            self._put_run(connection, history, version or history.application_version)
            for step in history.steps:
                self._put_step(connection, history, step)
            if history.is_cut:  # what it waits for is over: it looks at once
                self._insert(
                    connection, "notifications",
                    destination_uuid=history.run_id, topic=WAKE_TOPIC, message=json.dumps(WAKE_TOPIC),
                    message_uuid=f"wake-up of {history.run_id}", serialization=history.serialization,
                )  # fmt: skip

    def _put_run(self, connection: sa.Connection, history: History, version: str) -> None:
        moment = history.created_at_ms
        self._insert(
            connection, "workflow_status",
            workflow_uuid=history.run_id, name=history.workflow, status="PENDING",
            executor_id=WORKER, application_version=version, application_name=APPLICATION_NAME,
            created_at=moment, updated_at=moment, recovery_attempts=1, priority=0,
            serialization=history.serialization,
        )  # fmt: skip
        self._insert(
            connection, "workflow_input",
            workflow_uuid=history.run_id, inputs=json.dumps(history.inputs),
        )  # fmt: skip

    def _put_step(self, connection: sa.Connection, history: History, step: Step) -> None:
        failed = step.error is not None
        self._insert(
            connection, "operation_outputs",
            workflow_uuid=history.run_id, function_id=step.number, function_name=step.name,
            output=None if failed else json.dumps(step.output),
            error=json.dumps(step.error) if failed else None,
            started_at_epoch_ms=step.started_at_ms, serialization=step.serialization,
        )  # fmt: skip

    def _insert(self, connection: sa.Connection, table: str, **values: Any) -> None:
        names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
        statement = f"INSERT INTO {self._prefix}{table} ({names}) VALUES ({places})"
        connection.execute(sa.text(statement), values)

    def outcome(self, run_id: str) -> tuple[str, Any, Any]:
        """Return the state, result and error of a run."""
        query = (
            f"SELECT status, given.output, given.error FROM {self._prefix}workflow_status AS runs"
            f" LEFT JOIN {self._prefix}workflow_output AS given USING (workflow_uuid)"
            " WHERE workflow_uuid = :run_id"
        )
        with self._database.snapshot() as connection:
            row = connection.execute(sa.text(query), {"run_id": run_id}).one()
        return row.status, _read(row.output), _read(row.error)

    def step_names(self, run_id: str) -> list[str]:
        """Return the names of what is recorded of a run, in order."""
        query = (
            f"SELECT function_name FROM {self._prefix}operation_outputs"
            " WHERE workflow_uuid = :run_id ORDER BY function_id"
        )
        with self._database.snapshot() as connection:
            return list(connection.scalars(sa.text(query), {"run_id": run_id}))


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)
