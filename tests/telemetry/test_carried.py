"""A run carries the trace of what woke for it, and whoever does its work again stands in the same one."""

from __future__ import annotations

import json

from tests.harness import Harness
from tests.workflows.trouble import table_of_runs

CARRIED = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


def test_a_fork_stands_in_the_trace_of_its_original(shop: Harness) -> None:
    shop.write("Where is my kettle?")
    table = table_of_runs(shop)
    (run,) = shop.rows(f"SELECT workflow_uuid FROM {table} WHERE name = 'conversation'")
    attributes = json.dumps({"subject": "conversation_01", "dbos.otelContext": CARRIED})
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE {table} SET status = 'ERROR', attributes = '{attributes}'"
        )
    _, fork_id = shop.live.workflow_client.replays.fork_run(run.workflow_uuid)
    (forked,) = shop.rows(
        f"SELECT attributes FROM {table} WHERE workflow_uuid = :fork_id", fork_id=fork_id
    )
    found = forked.attributes
    kept = json.loads(found) if isinstance(found, str) else found
    assert kept["dbos.otelContext"] == CARRIED
    seen = shop.live.workflow_client.runs.find_run(fork_id)
    assert seen is not None
    assert dict(seen.attributes) == {"subject": "conversation_01"}
