"""What comes before the payment of a refund: its cancellation (see `condition`), or its return. The customer is
asked here to send the goods back, once the order was looked up."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent import remedies as ending
from mailagent.domain.deadline import end_of_day
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.remedy import Remedy, RemedyStatus
from mailagent.proposals.returns import list_due
from mailagent.store import audit
from mailagent.store.mail import outbound
from mailagent.store.refunds import orders, refunds, remedies, stops
from mailagent.workflows.steps.refund.condition import (
    LOOK_AGAIN_SECONDS,
    advance_remedy,
    fail,
    lock_payable,
)
from mailagent.workflows.steps.refund.decision import State, state_of
from mailagent.workflows.steps.refund.order_check import check_before_payment

REMINDED_BEFORE = timedelta(days=3)


def wait_for_remedy(refund_id: str) -> State | None:
    """Advance the remedy that comes before the payment of an approved refund. Return a State if the refund
    waits for it, or for the order source; None if it does not.

    Raises NeedsOperatorError if the order source is away for too long."""
    now = services.current().now()
    with services.current().database.snapshot() as connection:
        remedy = remedies.find_of_refund(connection, refund_id)
        status = refunds.load(connection, refund_id).status
        if remedy is None or not remedy.is_open or status is not RefundStatus.APPROVED:
            return None
        awaits_goods = remedy.status is RemedyStatus.AWAITING_GOODS
        writes = awaits_goods and any(_is_due(connection, remedy, now))
    # Nothing may be left of the order: then the customer would send the goods for no money.
    stop = check_before_payment(refund_id) if writes else None
    if isinstance(stop, dict):
        return stop
    pause = _wait_for_goods(remedy, now, stop) if awaits_goods else advance_remedy(refund_id)
    return None if pause is None else state_of(RefundStatus.APPROVED, pause)


def _is_due(connection: sa.Connection, remedy: Remedy, now: datetime) -> tuple[bool, bool]:
    """Return whether the first request for the goods of a return is due, and whether the reminder is."""
    is_first = not outbound.is_recorded(connection, remedies.asked_key(remedy))
    return is_first, remedy.reminded_at is None and now >= remedy.due_at - _reminded_before()


def _wait_for_goods(known: Remedy, now: datetime, stop: str | None) -> float | None:
    """Tell the customer how to send the goods, remind them once, and end the return if the goods do
    not come by the date in the reminder. If the refund must not be paid, fail it instead of asking
    for the goods. Returns the seconds until the next look; None if the return has ended. `stop`: the order
    source's reason why no more may be paid."""
    notice = _reminded_before()
    with services.current().database.transaction() as connection:
        remedy = remedies.lock(connection, known.remedy_id)
        refund = lock_payable(connection, remedy)
        if remedy is None or not remedy.is_open or refund is None:
            return None
        is_first, is_reminder = _is_due(connection, remedy, now)
        if (is_first or is_reminder) and _give_up_stopped(connection, remedy, refund, stop):
            return None
        if is_first:
            remedy = _ask_for_goods(connection, remedy, refund)
            if remedy is None:
                return None
        elif is_reminder:
            due_at = max(remedy.due_at, end_of_day(now + notice))  # later, if no worker ran
            remedy = remedies.note(connection, remedy, reminded_at=now, due_at=due_at)
            _tell(connection, remedy, f"{remedies.asked_key(remedy)}:reminder")
        elif now >= remedy.due_at:
            ending.end(connection, remedy, RemedyStatus.EXPIRED, audit.CLOCK)
            return None
    next_at = remedy.due_at if remedy.reminded_at else remedy.due_at - notice
    return min((next_at - now).total_seconds(), LOOK_AGAIN_SECONDS)


def _give_up_stopped(
    connection: sa.Connection, remedy: Remedy, refund: Refund, stop: str | None
) -> bool:
    """If a locked refund is approved but must not be paid (`stop`, or see `stops`), fail it, and close
    its return. Return whether that happened. Lock the order first."""
    order = orders.load(connection, remedy.order_id)
    knows_all = services.current().order_source is not None
    stop = stop or stops.find_stop(connection, order, refund, knows_all=knows_all)
    if stop is None or refund.status is not RefundStatus.APPROVED:
        return False
    fail(connection, refund, stop, None)
    ending.close(connection, remedy, RemedyStatus.NOT_POSSIBLE, audit.CLOCK)
    return True


def _reminded_before() -> timedelta:
    rules = services.current().policy.return_first
    return min(REMINDED_BEFORE, timedelta(days=rules.days) / 2) if rules else REMINDED_BEFORE


def _ask_for_goods(connection: sa.Connection, remedy: Remedy, refund: Refund) -> Remedy | None:
    """Ask the customer for the approved units, which may be fewer than requested. Return the
    changed remedy. If no unit has to come back any more, close the remedy and return None."""
    live = services.current()
    rules = live.policy.return_first
    # If the policy has no such rules any more, keep the days that it gave.
    days = rules.days if rules else (remedy.due_at - remedy.requested_at).days
    items = list_due(connection, refund, orders.load(connection, remedy.order_id))
    if not items:
        remedy = remedies.note(connection, remedy, refund_id=None)
        ending.close(connection, remedy, RemedyStatus.NOT_POSSIBLE, audit.CLOCK)
        return None
    due_at = end_of_day(live.now() + timedelta(days=days))
    remedy = remedies.note(connection, remedy, due_at=due_at, items=items)
    _tell(connection, remedy, remedies.asked_key(remedy))
    return remedy


def _tell(connection: sa.Connection, remedy: Remedy, key: str) -> None:
    outbound_id = mailers.write_remedy(connection, remedy, key)
    services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)
