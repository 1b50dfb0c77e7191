"""Words of the gateway about money that went back without us: which order it was, and that it counts.

Whatever was told before its order was known is followed when the order comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money, parse_money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import GatewayRefund, GivenBack, RefundState
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.refunds import (
    external_refunds,
    gateway_events,
    order_rows,
    refund_payments,
    refunds,
)

KNOWN = "known already"
NO_PAYMENT = "no such payment"


def find_intent(connection: sa.Connection, told: GatewayRefund) -> Row | None:
    """Return our intent that speaks of this very refund, by key, payment, amount and the gateway's name
    for it. Another one under its key, or one that was made although we were told that it was refused,
    gave money back beside what our rows say."""
    row = (
        refund_payments.find_payment(connection, told.idempotency_key)
        if told.idempotency_key
        else None
    )
    if row is None or row.payment_id not in told.payment_ids:
        return None
    currency = refunds.load(connection, row.refund_id).amount.currency
    if told.amount != Money(row.amount_minor, currency):
        return None
    if row.state == "refused":
        return row if told.state is RefundState.FAILED else None
    reference = row.reference or refund_payments.pending_reference(row)
    return row if reference in (None, told.reference) else None


def find_undecided(connection: sa.Connection, told: GatewayRefund) -> Refund | None:
    """Return our refund that this one pays although no row says that it was asked for: a backup was
    restored since. What the refund takes out of its order counts already, so this must not beside it."""
    refund_id = (told.idempotency_key or "").partition(".")[0]
    refund = refunds.find(connection, refund_id) if refund_id else None
    if refund is None or told.order_id != refund.order_id or told.state is RefundState.FAILED:
        return None
    waits = refund.status in (RefundStatus.AWAITING_APPROVAL, RefundStatus.APPROVED)
    return refund if waits and not refund_payments.list_payments(connection, refund_id) else None


def follow(connection: sa.Connection, told: GatewayRefund, now: datetime) -> str:
    """Record a refund that is not ours; return what came of it, in words."""
    found = _find_owner(connection, told.payment_ids, told.amount, told.order_id)
    return found if isinstance(found, str) else _record(connection, told, found, now)


def follow_sum(connection: sa.Connection, told: GivenBack, now: datetime) -> str:
    """Record what a payment gave back beyond the refunds that we know; return what came of it, in words."""
    found = _find_owner(connection, told.payment_ids, told.total)
    return found if isinstance(found, str) else _record_sum(connection, told, found, now)


def catch_up(connection: sa.Connection, order: Order, now: datetime) -> None:
    """Follow what was told of an order's payments before it was known whose they are; the order must be
    locked."""
    for payment in order.payments:
        for event in gateway_events.list_about(connection, [payment.payment_id]):
            _follow_again(connection, event, order.order_id, now)


def _follow_again(connection: sa.Connection, event: Row, order_id: str, now: datetime) -> None:
    counts = bool(event.body.get("dispute"))  # of which the order's payments are marked
    for told in _refunds_of(event):
        owner = _find_owner(connection, told.payment_ids, told.amount, told.order_id)
        if isinstance(owner, str) or owner.order_id != order_id:
            continue
        if find_intent(connection, told) or find_undecided(connection, told):
            continue  # ours: its run asks for it under its key, and records what it is told
        counts = _record(connection, told, owner, now) != KNOWN or counts
    total = _sum_of(event)
    if total:
        owner = _find_owner(connection, total.payment_ids, total.total)
        if not isinstance(owner, str) and owner.order_id == order_id:
            counts = _record_sum(connection, total, owner, now) != KNOWN or counts
    if counts and event.outcome.startswith(NO_PAYMENT):
        outcome = f"counts since order {order_id} came; before, {event.outcome}"
        gateway_events.set_outcome(connection, event.event_id, outcome)


def _find_owner(
    connection: sa.Connection, names: Sequence[str], amount: Money, order_id: str | None = None
) -> Row | str:
    """Return the one payment of an order that this is about; or why there is none."""
    known = sorted(gateway_events.names_of(connection, names))
    found = external_refunds.list_payments_named(connection, known)
    named = [row for row in found if row.order_id == order_id] or found
    if not named:
        return f"{NO_PAYMENT}: {', '.join(names) or 'none is named'}"
    if len(named) > 1:
        several = ", ".join(row.order_id for row in named)
        return f"the payment is named by several orders, {several}: a person has to look"
    row = named[0]
    if row.currency != amount.currency:
        return f"{amount} on order {row.order_id}, which is in {row.currency}: a person has to look"
    return KNOWN if amount.minor <= 0 else row


def _record(connection: sa.Connection, told: GatewayRefund, owner: Row, now: datetime) -> str:
    order_rows.lock_row(connection, owner.order_id)
    if not external_refunds.record(connection, told, owner.order_id, owner.payment_id, now):
        return KNOWN
    failed = told.state is RefundState.FAILED
    audit.record(
        connection,
        now,
        told.gateway,
        "refunded elsewhere, returned" if failed else "refunded elsewhere",
        owner.order_id,
        {"reference": told.reference, "amount": str(told.amount), "payment_id": owner.payment_id},
    )
    what = "came back" if failed else "was given back"
    return f"{told.amount} {what} on order {owner.order_id} without us, as {told.reference}"


def _record_sum(connection: sa.Connection, told: GivenBack, owner: Row, now: datetime) -> str:
    order_rows.lock_row(connection, owner.order_id)
    minor = external_refunds.record_sum(connection, told, owner.order_id, owner.payment_id, now)
    if not minor:
        return KNOWN
    amount = Money(minor, told.total.currency)
    details = {"amount": str(amount), "payment_id": owner.payment_id}
    audit.record(connection, now, told.gateway, "refunded elsewhere", owner.order_id, details)
    return (
        f"{amount} was given back on order {owner.order_id} without us; by which refunds is not said: "
        "select refund.created, too, or run flask refunds reconcile --record"
    )


# --- words that are on record -----------------------------------------------------------------


def _refunds_of(event: Row) -> Iterator[GatewayRefund]:
    for fact in event.body.get("refunds", ()):
        yield GatewayRefund(
            reference=fact["reference"],
            gateway=event.gateway,
            payment_ids=tuple(fact["payment_ids"]),
            amount=_money(fact["amount"]),
            state=RefundState(fact["state"]),
            idempotency_key=fact["key"],
            order_id=fact.get("order_id"),
            why=fact["why"],
        )


def _sum_of(event: Row) -> GivenBack | None:
    fact: Mapping[str, Any] | None = event.body.get("given_back")
    if not fact:
        return None
    total = _money(fact["total"])
    return GivenBack(event.gateway, tuple(fact["payment_ids"]), total, event.occurred_at)


def _money(text: str) -> Money:
    amount, _, currency = text.partition(" ")
    return parse_money(amount, currency)


def find_failure(connection: sa.Connection, payment_id: str, reference: str) -> str | None:
    """Return why a refund of a payment has failed, if an event has said so."""
    for event in gateway_events.list_about(connection, [payment_id]):
        for told in _refunds_of(event):
            if told.reference == reference and told.state is RefundState.FAILED:
                return told.why or "no reason given"
    return None
