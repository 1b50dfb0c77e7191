"""How well an order is known, if a system of the shop has to be asked for it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from mailagent.domain.refunds.order import Order

# For so long after a look-up an order is told as it was then. Money always asks again.
FRESH_FOR = timedelta(minutes=5)


class Freshness(StrEnum):
    """What a look-up of one order has shown."""

    FRESH = "fresh"  # the rows have it as the source has it now
    ABSENT = "absent"  # the customer has no such order
    GONE = "gone"  # the rows have it, and the source does not
    UNUSABLE = "unusable"  # the source's record cannot be read
    REFUSED = "refused"  # its refunds forbid what the record says now
    AWAY = "away"  # the source did not answer


def is_fresh(order: Order, now: datetime) -> bool:
    return order.seen_at is not None and is_fresh_at(order.seen_at, now)


def is_fresh_at(seen_at: datetime, now: datetime) -> bool:
    return now - seen_at < FRESH_FOR


def told_as_of(order: Order, now: datetime) -> datetime | None:
    """Return of when our knowledge of an order is, if it is not fresh."""
    return None if is_fresh(order, now) else order.seen_at or order.placed_at
