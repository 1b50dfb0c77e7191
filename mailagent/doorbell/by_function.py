"""Ringing by functions in a PostgreSQL: those that DBOS keeps there (docs.dbos.dev, "System Database
Functions"), and ours around the one that queues, which also says what the run is about (migration 0002).

DBOS's client does the same from Python, and builds its statements anew each time: ten times as dear
(docs/decisions/0050). SQLite has no functions, and they know no forks; there the client rings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSON, JSONB

from mailagent.doorbell.names import APPLICATION_NAME, LOOK


@dataclass(frozen=True, slots=True)
class Bell:
    """A bell for another statement to ring: the call of a function in the database, and its values."""

    call: sa.ColumnElement[Any]
    values: Mapping[str, Any]


def _value(name: str, type_: type[sa.types.TypeEngine[Any]] = sa.Text) -> sa.ColumnElement[Any]:
    return sa.cast(sa.bindparam(f"bell_{name}", type_=sa.Text), type_)


_CALL = sa.func.mailagent_queue_run(
    _value("workflow"),
    _value("queue"),
    _value("subject", JSON),
    _value("run"),
    _value("partition"),
    _value("application"),
    _value("attributes", JSONB),
)
_QUEUE_RUN = sa.select(_CALL)
# To be called where a run `run` is looked at; what it returns says only that it was called.
SEND_LOOK = sa.cast(
    sa.func.dbos.send_message(
        sa.cast(sa.bindparam("run"), sa.Text),
        sa.cast(sa.literal(json.dumps(LOOK), sa.Text), JSON),
        sa.cast(sa.literal(LOOK), sa.Text),
    ),
    sa.Text,
)


def bell(options: Mapping[str, Any], subject: str) -> Bell:
    """Return what queues a run about a row, unless it is queued already. `options`: as for
    `DBOSClient.enqueue`."""
    values = {
        "bell_workflow": options["workflow_name"],
        "bell_queue": options["queue_name"],
        "bell_subject": json.dumps(subject),
        "bell_run": options["workflow_id"],
        "bell_partition": options.get("queue_partition_key"),
        "bell_application": APPLICATION_NAME,
        "bell_attributes": json.dumps(options["attributes"]),
    }
    return Bell(_CALL, values)


def queue_run(connection: sa.Connection, options: Mapping[str, Any], subject: str) -> None:
    """Queue a run about a row unless it is queued already. `options`: as for `DBOSClient.enqueue`."""
    connection.execute(_QUEUE_RUN, bell(options, subject).values)
