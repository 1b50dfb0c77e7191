"""What follows from a word of the payment gateway's: rows, and a bell. Never that a refund is paid: its
own run asks the gateway. The words come in any order, and more than once."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.payment import Dispute, GatewayRefund, RefundState
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.doorbell import REFUND, run_id_of
from mailagent.store import audit, cases, chargebacks, gateway_events, orders, outside, refunds
from mailagent.store.database import Row

KNOWN = "known already"


def follow_refund(connection: sa.Connection, told: GatewayRefund, again: str) -> str:
    """Record what the gateway says of a refund, ours or not; return what came of it, in words.

    `again` tells a run apart that is queued because of this.
    """
    row = refunds.find_payment(connection, told.idempotency_key) if told.idempotency_key else None
    if row is None or not _is_about(told, row):
        return _follow_outside(connection, told)
    order_id = refunds.load(connection, row.refund_id).order_id
    orders.lock(connection, order_id)
    refund = refunds.lock(connection, row.refund_id)
    row = refunds.find_payment(connection, row.idempotency_key) or row
    failed = told.state is RefundState.FAILED
    news = failed and refunds.mark_returned(
        connection, row.idempotency_key, services.current().now(), told.why
    )
    if row.state == "done" and news:
        return _take_back(connection, refund, told, again)
    if row.state == "asked" and refund.status is RefundStatus.APPROVED:
        _ring(connection, refund, again)
        return f"refund {refund.refund_id} looks at once"
    return KNOWN


def _is_about(told: GatewayRefund, row: Row) -> bool:
    """Whether our intent speaks of this very refund. Another one under its key, or one that was made
    although we were told that it was refused, gave money back beside what our rows say."""
    if row.state == "refused":
        return told.state is RefundState.FAILED
    return row.reference in (None, told.reference)


def _take_back(connection: sa.Connection, refund: Refund, told: GatewayRefund, again: str) -> str:
    """Record that money of a refund came back; its run tells the customer and the team."""
    live = services.current()
    details = {"reference": told.reference, "amount": str(told.amount), "why": told.why}
    audit.record(connection, live.now(), told.gateway, "refund returned", refund.refund_id, details)
    if refund.status is RefundStatus.PAID:
        failure = cases.describe_payments(connection, refund)
        refunds.move(connection, refund, RefundStatus.FAILED, failure=failure)
    _ring(connection, refund, again)
    return f"refund {refund.refund_id} came back"


def _ring(connection: sa.Connection, refund: Refund, again: str) -> None:
    """Make the refund's run look. One that has seen its end, and is only writing of it, looks no more:
    what is to be told then is for a run of its own."""
    bell = services.current().doorbell
    looks_after = None
    if refund.status is RefundStatus.APPROVED:
        looks_after = refund.run_id or run_id_of(REFUND, refund.refund_id)
    run_id = bell.ring_refund(connection, refund.refund_id, looks_after, again)
    refunds.claim(connection, refund.refund_id, run_id)


# --- not ours ---------------------------------------------------------------------------------


def _follow_outside(connection: sa.Connection, told: GatewayRefund) -> str:
    found = outside.list_payments_named(connection, told.payment_ids)
    named = [row for row in found if row.order_id == told.order_id] or found
    if not named:
        return f"no such payment: {_names(told.payment_ids)}"
    if len(named) > 1:
        several = ", ".join(row.order_id for row in named)
        return f"the payment is named by several orders, {several}: a person has to look"
    row = named[0]
    if row.currency != told.amount.currency:
        return f"{told.amount} on order {row.order_id}, which is in {row.currency}: a person has to look"
    if told.amount.minor <= 0:
        return KNOWN
    orders.lock(connection, row.order_id)
    return _record_outside(connection, told, row)


def _record_outside(connection: sa.Connection, told: GatewayRefund, row: Row) -> str:
    live = services.current()
    if not outside.record(connection, told, row.order_id, row.payment_id, live.now()):
        return KNOWN
    failed = told.state is RefundState.FAILED
    audit.record(
        connection,
        live.now(),
        told.gateway,
        "refunded elsewhere, returned" if failed else "refunded elsewhere",
        row.order_id,
        {"reference": told.reference, "amount": str(told.amount), "payment_id": row.payment_id},
    )
    what = "came back" if failed else "was given back"
    return f"{told.amount} {what} on order {row.order_id} without us, as {told.reference}"


# --- disputes ---------------------------------------------------------------------------------


def follow_dispute(connection: sa.Connection, told: Dispute) -> str:
    """Record whether a payment is charged back, by all that was told of it; its event must be stored.

    Returns what came of it, in words.
    """
    if told.charged_back is None:
        return "an inquiry: no money was taken"
    found = outside.list_payments_named(connection, told.payment_ids)
    if not found:
        return f"no such payment: {_names(told.payment_ids)}"
    for row in found:
        orders.lock(connection, row.order_id)
    # Under the locks: of two words that come at once, the second sees the first.
    since = gateway_events.charged_back_since(connection, told.payment_ids)
    changed = []
    for row in found:
        if chargebacks.mark(connection, row.order_id, row.payment_id, since):
            changed.append(row.order_id)
            action = "payment charged back" if since else "chargeback ended"
            details = {"payment_id": row.payment_id, "dispute": told.dispute_id}
            now = services.current().now()
            audit.record(connection, now, told.gateway, action, row.order_id, details)
    if not changed:
        return KNOWN
    return f"{'charged back' if since else 'no longer charged back'}: {', '.join(changed)}"


def _names(payment_ids: Sequence[str]) -> str:
    return ", ".join(payment_ids) or "none is named"
