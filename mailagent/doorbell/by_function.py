"""Ringing by the functions that DBOS keeps in a PostgreSQL (docs.dbos.dev, "System Database Functions").

DBOS's client does the same from Python, and builds its statements anew each time: ten times as dear
(docs/decisions/0050). SQLite has no functions, and they know neither traces nor forks; there the client rings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from mailagent.doorbell.names import APPLICATION_NAME, LOOK

# Nothing is touched of a run that is there: when it was changed last says for how long it has been quiet.
_QUEUE_RUN = sa.text(
    "SELECT dbos.enqueue_workflow(workflow_name => :workflow, queue_name => :queue,"
    " positional_args => ARRAY[CAST(:subject AS JSON)], workflow_id => :run,"
    " queue_partition_key => :partition, application_name => :application)"
    " WHERE NOT EXISTS (SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = :run)"
)
# The function takes no attributes. Of two that queue the same run at the same moment the first describes it.
_DESCRIBE_RUN = sa.text(
    "UPDATE dbos.workflow_status SET attributes = CAST(:attributes AS JSONB)"
    " WHERE workflow_uuid = :run AND attributes IS NULL"
)
_SEND = sa.text(
    "SELECT dbos.send_message(destination_id => :run, message => CAST(:message AS JSON),"
    " topic => :topic)"
)


def queue_run(connection: sa.Connection, options: Mapping[str, Any], subject: str) -> None:
    """Queue a run about a row unless it is queued already. `options`: as for `DBOSClient.enqueue`."""
    run = options["workflow_id"]
    queued = connection.execute(
        _QUEUE_RUN,
        {
            "workflow": options["workflow_name"],
            "queue": options["queue_name"],
            "subject": json.dumps(subject),
            "run": run,
            "partition": options.get("queue_partition_key"),
            "application": APPLICATION_NAME,
        },
    )
    if queued.first() is not None:
        attributes = json.dumps(options["attributes"])
        connection.execute(_DESCRIBE_RUN, {"run": run, "attributes": attributes})


def send_look(connection: sa.Connection, run_id: str) -> None:
    """Make a run look that has no forks, and is none."""
    connection.execute(_SEND, {"run": run_id, "message": json.dumps(LOOK), "topic": LOOK})
