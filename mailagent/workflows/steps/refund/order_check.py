"""Looks up an order at the order source before a refund of it is paid."""

from __future__ import annotations

from mailagent import services
from mailagent.domain.operations.circuit_breaker import look_again_seconds
from mailagent.domain.operations.retry import PAYMENT_IS_STUCK_AFTER
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.text import NeedsOperatorError, tell_moment
from mailagent.store.orders import problems
from mailagent.store.refunds import refunds
from mailagent.store.refunds.stops import OF_ANSWERS, UNITS_BACK, has_units_back
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.refund.decision import State, state_of

STOPS = (*OF_ANSWERS.values(), UNITS_BACK)
_FIRST_WAIT_SECONDS = 2.0


def check_before_payment(refund_id: str) -> State | str | None:
    """Look up the order of an approved refund, and save it. Return None if the refund may be paid, the reason
    if no more of it may be paid, or a State if it waits for the source.

    A missing order or an unreadable record may be the source's mistake, so the source is asked again for a
    while before the refund fails. Raises NeedsOperatorError when the source is away for too long.
    """
    live = services.current()
    source = live.order_source
    if source is None:
        return None
    with live.database.snapshot() as connection:
        refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.APPROVED:
        return None
    found = order_source.refresh(refund.order_id)
    if found is Freshness.FRESH:
        with live.database.snapshot() as connection:
            return UNITS_BACK if has_units_back(connection, refund, source.name) else None
    return OF_ANSWERS[found] if found is Freshness.REFUSED else _wait(refund, found)


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
