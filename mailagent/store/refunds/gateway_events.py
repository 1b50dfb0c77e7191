"""The gateway's webhook events: each is stored once, with its outcome. An event that came before its order is
applied when the order comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money, read_money
from mailagent.domain.refunds.order import Order, Payment
from mailagent.domain.refunds.payment import (
    GatewayEvent,
    GatewayRefund,
    RefundedTotal,
    RefundState,
    refund_id_of,
)
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store import audit, schema
from mailagent.store.database import Row, insert_once, update_rows
from mailagent.store.refunds import external_refunds, orders, refund_payments, refunds

_events, _names = schema.gateway_events, schema.gateway_event_payments
_payments = schema.order_payments

# Outcomes of an event.
KNOWN = "known already"
NO_PAYMENT = "no such payment"


def record(connection: sa.Connection, gateway: str, event: GatewayEvent, now: datetime) -> bool:
    """Record an event; return whether it was new. Call `set_outcome` in the same transaction.

    We also record the ids of its payment, by which an order that comes later finds the event; but not for a
    foreign event, which must never be applied.
    """
    values = {
        "event_id": event.event_id,
        "gateway": gateway,
        "kind": event.kind,
        "occurred_at": event.occurred_at,
        "received_at": now,
        "outcome": "",
        "body": event.body(),
    }
    if not insert_once(connection, _events, values, "event_id"):
        return False
    payment_ids = set() if event.foreign else event.payment_ids()
    rows = [{"payment_id": each, "event_id": event.event_id} for each in sorted(payment_ids)]
    if rows:
        connection.execute(_names.insert(), rows)
    return True


def set_outcome(connection: sa.Connection, event_id: str, outcome: str) -> None:
    update_rows(connection, _events, _events.c.event_id == event_id, outcome=outcome)


def list_latest(connection: sa.Connection, limit: int) -> Sequence[Row]:
    query = sa.select(_events).order_by(_events.c.received_at.desc(), _events.c.event_id)
    return connection.execute(query.limit(limit)).all()


def list_about(connection: sa.Connection, payment_ids: Sequence[str]) -> Sequence[Row]:
    """Return the events about a payment, by any of its ids, oldest first."""
    found = _list_naming(connection, set(payment_ids))
    return _list_naming(connection, names_of(connection, payment_ids)) if found else ()


def _list_naming(connection: sa.Connection, names: Iterable[str]) -> Sequence[Row]:
    query = sa.select(_events).where(_events.c.event_id.in_(_ids_of_events_naming(names)))
    return connection.execute(query.order_by(_events.c.occurred_at, _events.c.event_id)).all()


def names_of(connection: sa.Connection, payment_ids: Iterable[str]) -> set[str]:
    """Return all known ids of a payment: an order may name its payment intent, an event its charge."""
    names: set[str] = set()
    found = set(payment_ids)
    while not found <= names:
        names |= found
        query = sa.select(_names.c.payment_id).distinct()
        query = query.where(_names.c.event_id.in_(_ids_of_events_naming(names)))
        found = set(connection.scalars(query))
    return names


def _ids_of_events_naming(names: Iterable[str]) -> sa.Select[str]:
    return sa.select(_names.c.event_id).where(_names.c.payment_id.in_(sorted(names)))


# --- refunds --------------------------------------------------------------------------------------


def find_intent(connection: sa.Connection, refund: GatewayRefund) -> Row | None:
    """Return our intent that this refund at the gateway carries out; None if it is an external refund.

    It is also external if our intent with its key has another reference, or if the gateway refused our intent.
    """
    if not refund.idempotency_key:
        return None
    row = refund_payments.find_payment(connection, refund.idempotency_key)
    if row is None or row.payment_id not in refund.payment_ids:
        return None
    currency = refunds.load(connection, row.refund_id).amount.currency
    if refund.amount != Money(row.amount_minor, currency):
        return None
    if row.state == "refused":
        return row if refund.state is RefundState.FAILED else None
    reference = row.reference or refund_payments.pending_reference(row)
    return row if reference in (None, refund.reference) else None


def find_undecided(connection: sa.Connection, refund: GatewayRefund) -> Refund | None:
    """Return our refund that the gateway has paid although we have no intent for it, because a backup was
    restored since. Do not record it as external: our refund already counts against its order."""
    refund_id = refund_id_of(refund.idempotency_key or "")
    ours = refunds.find(connection, refund_id) if refund_id else None
    if ours is None or refund.order_id != ours.order_id or refund.state is RefundState.FAILED:
        return None
    if ours.status not in (RefundStatus.AWAITING_APPROVAL, RefundStatus.APPROVED):
        return None
    return None if refund_payments.list_payments(connection, refund_id) else ours


def apply(connection: sa.Connection, fact: GatewayRefund | RefundedTotal, now: datetime) -> str:
    """Record an external refund, or how much of a payment was refunded beyond the refunds that we know; return
    the outcome in words."""
    owner = _find_owner(connection, fact)
    return owner if isinstance(owner, str) else _record(connection, fact, owner, now)


def apply_earlier_events(connection: sa.Connection, order: Order, now: datetime) -> Order:
    """Apply the events about an order's payments that came before the order, or at the same time, when neither
    transaction saw the other's rows. Lock the order first. Return it with its chargebacks."""
    events = [row for each in order.payments for row in list_about(connection, [each.payment_id])]
    if not events:
        return order
    for event in events:
        _apply_again(connection, event, order.order_id, now)
    marked = with_chargebacks(connection, order, order)
    for payment in marked.payments:
        if payment not in order.payments:
            since = payment.charged_back_at
            mark_charged_back(connection, order.order_id, payment.payment_id, since)
    return marked


def _apply_again(connection: sa.Connection, event: Row, order_id: str, now: datetime) -> None:
    # A dispute counts in any case: `with_chargebacks` marks the order's payments.
    counts = bool(event.body.get("dispute"))
    for fact in _facts_of(event):
        owner = _find_owner(connection, fact)
        if isinstance(owner, str) or owner.order_id != order_id:
            continue
        if isinstance(fact, GatewayRefund) and (
            find_intent(connection, fact) or find_undecided(connection, fact)
        ):
            continue  # It is our refund: its run will look it up by its key and record it.
        counts = _record(connection, fact, owner, now) != KNOWN or counts
    if counts and event.outcome.startswith(NO_PAYMENT):
        outcome = f"counts since order {order_id} came; before, {event.outcome}"
        set_outcome(connection, event.event_id, outcome)


def _find_owner(connection: sa.Connection, fact: GatewayRefund | RefundedTotal) -> Row | str:
    """Return the one order's payment that a fact names; a text that says why, if there is none or several."""
    names, amount = fact.payment_ids, fact.amount
    order_id = fact.order_id if isinstance(fact, GatewayRefund) else None
    known = sorted(names_of(connection, names))
    found = external_refunds.list_payments_named(connection, known)
    named = [row for row in found if row.order_id == order_id] or found
    if not named:
        return f"{NO_PAYMENT}: {', '.join(names) or 'none is named'}"
    if len(named) > 1:
        several = ", ".join(row.order_id for row in named)
        return f"several orders name the payment, {several}: a person has to look"
    row = named[0]
    if row.currency != amount.currency:
        return f"{amount} on order {row.order_id}, which is in {row.currency}: a person has to look"
    return KNOWN if amount.minor <= 0 else row


def _record(
    connection: sa.Connection, fact: GatewayRefund | RefundedTotal, owner: Row, now: datetime
) -> str:
    order_id, payment_id = owner.order_id, owner.payment_id
    orders.lock_row(connection, order_id)
    action: audit.Action = "refunded elsewhere"
    details = {"payment_id": payment_id}
    if isinstance(fact, GatewayRefund):
        if not external_refunds.record(connection, fact, order_id, payment_id, now):
            return KNOWN
        amount, came_back = fact.amount, fact.state is RefundState.FAILED
        if came_back:
            action = "refunded elsewhere, returned"
        details["reference"] = fact.reference
        what = f"{'came back' if came_back else 'was refunded'} on order {order_id}"
        outcome = f"{amount} {what} outside mailagent, as {fact.reference}"
    else:
        minor = external_refunds.record_sum(connection, fact, order_id, payment_id, now)
        if not minor:
            return KNOWN
        amount = Money(minor, fact.amount.currency)
        outcome = (
            f"{amount} was refunded on order {order_id} outside mailagent, and the event does not name the"
            " refunds: select the event refund.created too, or run flask refunds reconcile --record"
        )
    details["amount"] = str(amount)
    audit.record(connection, now, fact.gateway, action, order_id, details)
    return outcome


def find_failure(connection: sa.Connection, payment_id: str, reference: str) -> str | None:
    """Return why a refund of a payment failed, by an event; None if no event says that it failed."""
    for event in list_about(connection, [payment_id]):
        for fact in _facts_of(event):
            if not isinstance(fact, GatewayRefund) or fact.reference != reference:
                continue
            if fact.state is RefundState.FAILED:
                return fact.why or "no reason given"
    return None


def _facts_of(event: Row) -> Iterator[GatewayRefund | RefundedTotal]:
    for fact in event.body.get("refunds", ()):
        yield GatewayRefund(
            reference=fact["reference"],
            gateway=event.gateway,
            payment_ids=tuple(fact["payment_ids"]),
            amount=read_money(fact["amount"]),
            state=RefundState(fact["state"]),
            idempotency_key=fact["key"],
            order_id=fact.get("order_id"),
            why=fact["why"],
        )
    if total := event.body.get("given_back"):
        payment_ids, amount = tuple(total["payment_ids"]), read_money(total["total"])
        yield RefundedTotal(event.gateway, payment_ids, amount, event.occurred_at)


# --- disputes -------------------------------------------------------------------------------------


def charged_back_since(connection: sa.Connection, payment_ids: Sequence[str]) -> datetime | None:
    """Return since when a payment is charged back, by the events about its disputes; None if it is not. The
    newest event of each dispute counts, by its own time."""
    since: dict[str, datetime | None] = {}
    for row in _of_disputes(list_about(connection, payment_ids)):
        dispute, charged_back = row.body["dispute"], row.body["charged_back"]
        if charged_back is not None:
            since[dispute] = (since.get(dispute) or row.occurred_at) if charged_back else None
    return min((each for each in since.values() if each), default=None)


def with_chargebacks(connection: sa.Connection, order: Order, stored: Order | None) -> Order:
    """Return the order with the chargebacks that the gateway reported, also those from before the order came. A
    record of the shop can end only a chargeback that an earlier record reported."""
    before = {each.payment_id: each.charged_back_at for each in stored.payments} if stored else {}

    def charged_back(payment: Payment) -> Payment:
        if payment.charged_back_at:
            return payment
        since = charged_back_since(connection, [payment.payment_id])
        if since is None:
            return payment
        return replace(payment, charged_back_at=before.get(payment.payment_id) or since)

    return replace(order, payments=tuple(charged_back(each) for each in order.payments))


def mark_charged_back(
    connection: sa.Connection, order_id: str, payment_id: str, since: datetime | None
) -> bool:
    """Record since when a payment is charged back (None: not any more); return whether that changes it."""
    is_marked = _payments.c.charged_back_at.is_not(None)
    changes = sa.not_(is_marked) if since else is_marked
    here = (_payments.c.order_id == order_id, _payments.c.payment_id == payment_id)
    return update_rows(connection, _payments, *here, changes, charged_back_at=since) > 0


def list_disputes_without_order(connection: sa.Connection, since: datetime) -> Sequence[Row]:
    """Return the newest event, since a time, of each dispute in which the bank took the money of a payment that
    no order has."""
    named_by_order = (
        sa.select(_names.c.event_id)
        .join(_payments, _payments.c.payment_id == _names.c.payment_id)
        .where(_names.c.event_id == _events.c.event_id)
    )
    query = sa.select(_events).where(
        _events.c.kind.startswith("charge.dispute."),
        _events.c.received_at >= since,
        ~named_by_order.exists(),
        sa.exists().where(_names.c.event_id == _events.c.event_id),
    )
    newest = {row.body["dispute"]: row for row in _of_disputes(connection.execute(query).all())}
    return [row for row in newest.values() if row.body["charged_back"]]


def _of_disputes(rows: Sequence[Row]) -> list[Row]:
    """Return the events about disputes, oldest first. Of events of the same second, the one that ends a dispute
    comes last."""
    found = [row for row in rows if row.body.get("dispute")]
    return sorted(found, key=lambda row: (row.occurred_at, row.body["charged_back"] is False))
