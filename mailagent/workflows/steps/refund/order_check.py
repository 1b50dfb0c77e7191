"""Looks up an order at the order source before a refund of it is paid."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.circuit_breaker import look_again_seconds
from mailagent.domain.operations.retry import PAYMENT_IS_STUCK_AFTER
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.orders.shipment import left_to_ship
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.remedy import Remedy
from mailagent.domain.text import NeedsOperatorError, tell_moment
from mailagent.store.orders import problems, versions
from mailagent.store.refunds import orders, refunds, remedies
from mailagent.store.refunds.stops import OF_ANSWERS
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.refund.decision import State, state_of

UNITS_BACK = "the order was sent with units that had been cancelled"
STOPS = (*OF_ANSWERS.values(), UNITS_BACK)
_FIRST_WAIT_SECONDS = 2.0


def check_before_payment(refund_id: str) -> State | str | None:
    """Look up the order of an approved refund, and save it. Return None if the refund may be paid, the reason
    if no more of it may be paid, or a State if it waits for the source.

    A missing order or an unreadable record may be the source's mistake, so the source is asked again for a
    while before the refund fails. Raises NeedsOperatorError when the source is away for too long.
    """
    live = services.current()
    if live.order_source is None:
        return None
    with live.database.snapshot() as connection:
        refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.APPROVED:
        return None
    found = order_source.refresh(refund.order_id)
    if found is Freshness.FRESH:
        with live.database.snapshot() as connection:
            return UNITS_BACK if _has_units_back(connection, refund) else None
    return OF_ANSWERS[found] if found is Freshness.REFUSED else _wait(refund, found)


def _has_units_back(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether units that were cancelled for a refund are in its order's newest record again, and
    may have been shipped. For a cancellation of the whole order, `stops` checks this instead."""
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    if remedy is None or not remedy.is_done_cancellation or not remedy.items:
        return False
    if not _may_be_sent(orders.load(connection, refund.order_id), remedy):
        return False
    before = versions.units_before(connection, remedy)
    return bool(remedy.units - (before - versions.units_now(connection, remedy.order_id)))


def _may_be_sent(order: Order, remedy: Remedy) -> bool:
    """Return whether units of a cancellation may have been shipped. Other units of a pending order
    may have been shipped before. If a person made the cancellation, the shop's system may not know
    of it: then only a parcel that lists the units shows that they were shipped."""
    source = services.current().order_source
    by_system = source is not None and remedy.decided_by == source.name
    if by_system and order.status is not OrderStatus.PENDING:
        return order.was_sent
    left = left_to_ship(order.shipments, order.units)
    if left is None:
        return by_system
    return any(left[item_id] < number for item_id, number in remedy.units.items())


def _wait(refund: Refund, found: Freshness) -> State | str:
    live = services.current()
    with live.database.transaction() as connection:
        since = problems.meet(connection, refund.refund_id, refund.order_id, live.now())
    waited = live.now() - since
    if waited >= PAYMENT_IS_STUCK_AFTER:
        if found in OF_ANSWERS:
            return OF_ANSWERS[found]
        raise NeedsOperatorError(
            f"refund {refund.refund_id} cannot be paid: order {refund.order_id} could not be looked up since "
            f"{tell_moment(since)}; when it can, replay this run"
        )
    wait_seconds = look_again_seconds(refund.refund_id, waited.total_seconds(), _FIRST_WAIT_SECONDS)
    return state_of(RefundStatus.APPROVED, wait_seconds, wakes=False)
