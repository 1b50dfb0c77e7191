"""Ringing by functions in a PostgreSQL: those that DBOS keeps there (docs.dbos.dev, "System Database
Functions"), and ours around the one that queues, which also says what the run is about (migration 0002).

DBOS's client does the same from Python, and builds its statements anew each time: ten times as dear
(docs/decisions/0050). SQLite has no functions, and they know no forks; there the client rings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSON, JSONB

from mailagent.engine.names import APPLICATION_NAME, LOOK


def _value(name: str, type_: type[sa.types.TypeEngine[Any]] = sa.Text) -> sa.ColumnElement[Any]:
    return sa.cast(sa.bindparam(name, type_=sa.Text), type_)


_QUEUE_RUN = sa.select(
    sa.func.mailagent_queue_run(
        _value("workflow"),
        _value("queue"),
        _value("subject", JSON),
        _value("run"),
        _value("partition"),
        _value("application"),
        _value("attributes", JSONB),
    )
)
# To be called where a run `run` is looked at; what it returns says only that it was called.
SEND_LOOK = sa.cast(
    sa.func.dbos.send_message(
        sa.cast(sa.bindparam("run"), sa.Text),
        sa.cast(sa.literal(json.dumps(LOOK), sa.Text), JSON),
        sa.cast(sa.literal(LOOK), sa.Text),
    ),
    sa.Text,
)


def queue_run(connection: sa.Connection, options: Mapping[str, Any], subject: str) -> None:
    """Queue a run about a row unless it is queued already. `options`: as for `DBOSClient.enqueue`."""
    values = {
        "workflow": options["workflow_name"],
        "queue": options["queue_name"],
        "subject": json.dumps(subject),
        "run": options["workflow_id"],
        "partition": options.get("queue_partition_key"),
        "application": APPLICATION_NAME,
        "attributes": json.dumps(options["attributes"]),
    }
    connection.execute(_QUEUE_RUN, values)
