"""What the gateway told us, once per event, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Row, insert_once

_events = schema.gateway_events

# Kinds of events about a customer's bank that takes a payment back.
DISPUTES = "charge.dispute."


def record(
    connection: sa.Connection,
    gateway: str,
    event_id: str,
    kind: str,
    body: Mapping[str, Any],
    occurred_at: datetime,
    now: datetime,
) -> bool:
    """Record an event; return whether it was new. Its outcome is to be set in the same transaction."""
    return insert_once(
        connection,
        _events,
        {
            "event_id": event_id,
            "gateway": gateway,
            "kind": kind,
            "occurred_at": occurred_at,
            "received_at": now,
            "outcome": "",
            "body": dict(body),
        },
        "event_id",
    )


def set_outcome(connection: sa.Connection, event_id: str, outcome: str) -> None:
    """Record, in words, what came of an event."""
    connection.execute(
        _events.update().where(_events.c.event_id == event_id).values(outcome=outcome)
    )


def list_latest(connection: sa.Connection, limit: int) -> Sequence[Row]:
    """Return the latest events, newest first."""
    query = sa.select(_events).order_by(_events.c.received_at.desc(), _events.c.event_id)
    return connection.execute(query.limit(limit)).all()


def charged_back_since(connection: sa.Connection, payment_ids: Iterable[str]) -> datetime | None:
    """Return since when a payment is charged back, by all that was told of its disputes; None if it is
    not, or no longer. Of each dispute the newest word counts, in whatever order the words came."""
    since: dict[str, datetime | None] = {}
    for row in _words_about(connection, set(payment_ids)):
        dispute, taken = row.body["dispute"], row.body["charged_back"]
        if taken is not None:
            since[dispute] = (since.get(dispute) or row.occurred_at) if taken else None
    return min((each for each in since.values() if each), default=None)


def _words_about(connection: sa.Connection, payment_ids: set[str]) -> list[Row]:
    """Return the events of disputes about a payment, oldest first; of one second those last that say
    that the money is back, which is the end of it."""
    query = sa.select(_events).where(_events.c.kind.startswith(DISPUTES, autoescape=True))
    text = sa.cast(_events.c.body, sa.Text)
    named = sa.or_(*(text.contains(f'"{each}"', autoescape=True) for each in payment_ids))
    rows = connection.execute(query.where(named)).all()
    found = [row for row in rows if payment_ids & set(row.body.get("payment_ids", ()))]
    return sorted(found, key=lambda row: (row.occurred_at, row.body["charged_back"] is False))
