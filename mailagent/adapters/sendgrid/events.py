"""Parses the JSON of SendGrid's Event Webhook into delivery events. The caller has verified the signature."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from mailagent.domain.mail.delivery import DeliveryEvent, DeliveryKind
from mailagent.domain.text import is_one_line, without_controls


def parse_events(body: bytes) -> tuple[DeliveryEvent, ...]:
    """Return the delivery events of one request, in its order.

    It leaves out events of other kinds (open, click, unsubscribe), events without our `outbound_id`, and events
    without a valid timestamp. Raises ValueError if the body is not a JSON array.
    """
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"the event webhook's body is not JSON: {problem}") from None
    if not isinstance(rows, list):
        raise ValueError("the event webhook's body is JSON, but not an array of events")
    found = (_event(row) for row in rows if isinstance(row, dict))
    return tuple(event for event in found if event is not None)


def _event(row: dict[str, Any]) -> DeliveryEvent | None:
    outbound_id = row.get("outbound_id")  # custom_args come back as top-level keys
    occurred_at = _instant(row.get("timestamp"))
    if not isinstance(outbound_id, str) or not outbound_id or not is_one_line(outbound_id):
        return None
    if occurred_at is None:
        return None
    kind = _kind(row)
    if kind is None:
        return None
    return DeliveryEvent(outbound_id, kind, _reason(row), occurred_at, _key(row, outbound_id))


def _kind(row: dict[str, Any]) -> DeliveryKind | None:
    """Return the kind of an event; None if we do not use it. A block comes as a bounce of type `blocked`."""
    try:
        kind = DeliveryKind(str(row.get("event")))
    except ValueError:
        return None
    is_block = kind is DeliveryKind.BOUNCE and row.get("type") == "blocked"
    return DeliveryKind.BLOCKED if is_block else kind


def _instant(timestamp: object) -> datetime | None:
    """Return Unix seconds as a time. SendGrid sends a number; a string of digits is accepted, too."""
    if isinstance(timestamp, str) and timestamp.isdecimal() and len(timestamp) < 20:
        timestamp = int(timestamp)
    if type(timestamp) not in (int, float):
        return None
    try:
        return datetime.fromtimestamp(timestamp, UTC)  # type: ignore[arg-type]  # checked above
    except (ValueError, OverflowError, OSError):
        return None


def _reason(row: dict[str, Any]) -> str | None:
    """Return the receiving server's text: `reason` of bounces and drops, `response` of deferrals and
    deliveries, else the enhanced status code."""
    for name in ("reason", "response", "status"):
        words = row.get(name)
        if isinstance(words, str) and words.strip():
            return without_controls(" ".join(words.split()))[:500]
    return None


def _key(row: dict[str, Any], outbound_id: str) -> str:
    """Return a key that is the same in every delivery of one event.

    `sg_event_id` differs between deliveries, contrary to the documentation. Asynchronous bounces have no
    `sg_message_id`, so the key includes our own id.
    """
    names = ("sg_message_id", "event", "email", "timestamp", "reason", "response")
    parts = [outbound_id, *(row.get(name) for name in names)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
