"""Finds the steps at which runs failed, in DBOS's table of steps. DBOS's client reads the steps of one run at a
time, with everything that they returned."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.engine.run import FailedStep


def find_failed_steps(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, FailedStep]:
    """Return the first step of each of these runs that recorded an error."""
    schema = None if connection.dialect.name == "sqlite" else "dbos"
    names = ("workflow_uuid", "function_id", "function_name", "error")
    columns: list[sa.ColumnClause[str]] = [sa.column(name) for name in names]
    steps = sa.table("operation_outputs", *columns, schema=schema).c
    query = sa.select(steps.workflow_uuid, steps.function_id, steps.function_name).where(
        steps.workflow_uuid.in_(run_ids), steps.error.is_not(None)
    )
    last_first = connection.execute(query.order_by(steps.function_id.desc()))
    return {run_id: FailedStep(int(number), name) for run_id, number, name in last_first}
