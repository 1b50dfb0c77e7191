"""How current a stored order is, for shops whose own system we ask for orders. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from mailagent.domain.refunds.order import Order

# For this time after a look-up, replies use the stored order. Before a payment we always ask again.
FRESH_FOR = timedelta(minutes=5)
# After this time the sweep looks up the order of an open task again, even if it is not used.
TASK_FRESH_FOR = timedelta(hours=1)


class Freshness(StrEnum):
    """The outcome of looking up one order at its source."""

    FRESH = "fresh"  # our rows are now the same as the source's record
    ABSENT = "absent"  # the customer has no such order
    GONE = "gone"  # we have it, the source does not have it any more
    UNUSABLE = "unusable"  # we cannot read the source's record
    REFUSED = "refused"  # the record contradicts refunds that we made
    AWAY = "away"  # the source did not answer


def is_fresh(order: Order, now: datetime) -> bool:
    return order.seen_at is not None and is_fresh_at(order.seen_at, now)


def is_fresh_at(seen_at: datetime, now: datetime) -> bool:
    return now - seen_at < FRESH_FOR


def told_as_of(order: Order, now: datetime) -> datetime | None:
    """Return when a stored order was last current, for a reply that has to say so; None if it is fresh."""
    return None if is_fresh(order, now) else order.seen_at or order.placed_at
