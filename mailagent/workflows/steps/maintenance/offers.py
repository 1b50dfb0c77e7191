"""Closes offers of part of the price whose date has passed. Until then the date alone stops an acceptance."""

from __future__ import annotations

from mailagent import services
from mailagent.proposals import offers as proposals
from mailagent.store.refunds import offers
from mailagent.workflows.steps.maintenance.rows import process_each

OFFERS_AT_ONCE = 500


def expire() -> int:
    """Close the offers whose date has passed, the oldest first; return how many."""
    live = services.current()
    with live.database.snapshot() as connection:
        overdue = offers.list_overdue(connection, live.now(), OFFERS_AT_ONCE)
    return process_each(overdue, str, _expire)


def _expire(offer_id: str) -> int:
    with services.current().database.transaction() as connection:
        offer = offers.lock(connection, offer_id)
        return int(offer is not None and proposals.expire(connection, offer))
