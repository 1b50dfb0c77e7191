"""What follows from an event of the payment gateway: rows, and a message that wakes the refund's run.

An event never marks a refund as paid: the refund's own run asks the gateway. Events come in any order, and more
than once.
"""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.payment import INTENDED, Dispute, GatewayRefund, RefundState
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.engine import REFUND, run_id_of
from mailagent.store import audit
from mailagent.store.refunds import (
    external_refunds,
    gateway_events,
    orders,
    refund_payments,
    refunds,
)
from mailagent.store.refunds.gateway_events import KNOWN, NO_PAYMENT


def follow_refund(
    connection: sa.Connection, told: GatewayRefund, again: str, is_now: bool = False
) -> str:
    """Record what the gateway says of a refund, ours or not; return the outcome as a text for people.

    `again`: makes the id of a run that is enqueued because of this, such as the event's id. `is_now`: the
    gateway was asked just now; an event may be older than what we know.
    """
    live = services.current()
    row = gateway_events.find_intent(connection, told)
    if row is None:
        lost = gateway_events.find_undecided(connection, told)
        if lost is not None:
            return _recall(connection, lost, told, again)
        return gateway_events.apply(connection, told, live.now())
    order_id = refunds.load(connection, row.refund_id).order_id
    orders.lock(connection, order_id)
    refund = refunds.lock(connection, row.refund_id)
    row = refund_payments.find_payment(connection, row.idempotency_key) or row
    failed = told.state is RefundState.FAILED
    if row.returned_at and is_now and not failed:
        # The money did not come back. The customer and the team were told that it did, so the refund stays
        # failed.
        return gateway_events.apply(connection, told, live.now())
    news = failed and refund_payments.mark_returned(
        connection, row.idempotency_key, live.now(), told.why
    )
    if news:
        return _take_back(connection, refund, told, again)
    if failed and external_refunds.mark_returned(connection, told.reference, live.now()):
        return f"{told.reference} came back after all"
    # A refund that failed at the gateway waits for an operator, whose replay makes a new one.
    gave_way = external_refunds.is_known_failure(connection, told.reference)
    if row.state == INTENDED and refund.status is RefundStatus.APPROVED and not gave_way:
        _enqueue(connection, refund, again)
        return f"refund {refund.refund_id} looks at once"
    return KNOWN


def _recall(connection: sa.Connection, refund: Refund, told: GatewayRefund, again: str) -> str:
    """Handle a refund that the gateway has paid and whose payment is missing here, because a backup was
    restored. Its own run records it: it looks up its key, or asks under it once more, which moves no money."""
    # Lock the order first, as everywhere: a run that is about to pay reads the gateway's events under that
    # lock.
    orders.lock_row(connection, refund.order_id)
    if refund.status is RefundStatus.APPROVED:
        _enqueue(connection, refund, again)
        return f"refund {refund.refund_id} looks at once: it was paid as {told.reference} already"
    return (
        f"refund {refund.refund_id} waits for a manager here and was paid as {told.reference} already, so its "
        "decision is lost: have it approved again, with the same amount; it is not paid again"
    )


def _take_back(connection: sa.Connection, refund: Refund, told: GatewayRefund, again: str) -> str:
    """Record that money of a refund came back to the shop; the refund's run tells the customer and the team."""
    live = services.current()
    details = {"reference": told.reference, "amount": str(told.amount), "why": told.why}
    audit.record(connection, live.now(), told.gateway, "refund returned", refund.refund_id, details)
    if refund.status is RefundStatus.PAID:
        failure = refund_payments.describe(connection, refund)
        refunds.move(connection, refund, RefundStatus.FAILED, failure=failure)
    _enqueue(connection, refund, again)
    return f"refund {refund.refund_id} came back"


def _enqueue(connection: sa.Connection, refund: Refund, again: str) -> None:
    """Wake the refund's run, so that it reads its rows. Once the refund is past paying, a new run is enqueued:
    the old one may already be writing the outcome, and does not read them again."""
    client = services.current().workflow_client
    looks_after = None
    if refund.status is RefundStatus.APPROVED:
        looks_after = refund.run_id or run_id_of(REFUND, refund.refund_id)
    run_id = client.queue.enqueue_refund(connection, refund.refund_id, looks_after, again)
    refunds.claim(connection, refund.refund_id, run_id)


# --- disputes ---------------------------------------------------------------------------------


def follow_dispute(connection: sa.Connection, told: Dispute) -> str:
    """Record whether the payments of a dispute are charged back, by all its events that are stored. Store this
    event first.

    Returns the outcome as a text for people.
    """
    if told.charged_back is None:
        return "an inquiry: no money was taken"
    names = sorted(gateway_events.names_of(connection, told.payment_ids))
    found = external_refunds.list_payments_named(connection, names)
    if not found:
        return f"{NO_PAYMENT}: {', '.join(told.payment_ids) or 'none is named'}"
    for row in found:
        orders.lock_row(connection, row.order_id)
    # Read under the locks: of two events at the same moment, the second sees the first.
    since = gateway_events.charged_back_since(connection, told.payment_ids)
    changed = []
    for row in found:
        if gateway_events.mark_charged_back(connection, row.order_id, row.payment_id, since):
            changed.append(row.order_id)
            action: audit.Action = "payment charged back" if since else "chargeback ended"
            details = {"payment_id": row.payment_id, "dispute": told.dispute_id}
            now = services.current().now()
            audit.record(connection, now, told.gateway, action, row.order_id, details)
    if not changed:
        return KNOWN
    return f"{'charged back' if since else 'no longer charged back'}: {', '.join(changed)}"
