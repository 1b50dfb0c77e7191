"""Payments that the customer's bank took back: what the gateway said of one stands until it says more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.refunds.order import Order, Payment
from mailagent.store import schema
from mailagent.store.refunds import gateway_events

_payments = schema.order_payments


def mark(connection: sa.Connection, order_id: str, payment_id: str, since: datetime | None) -> bool:
    """Record since when a payment is charged back (None: no longer); return whether that is a change."""
    is_so = _payments.c.charged_back_at.is_not(None)
    marked = connection.execute(
        _payments.update()
        .where(
            _payments.c.order_id == order_id,
            _payments.c.payment_id == payment_id,
            sa.not_(is_so) if since else is_so,
        )
        .values(charged_back_at=since)
    )
    return marked.rowcount > 0


def keep(connection: sa.Connection, order: Order, stored: Order | None) -> Order:
    """Return the order of a shop's record with the chargebacks that the gateway told us of, be it long
    before the order came: a record that does not mention one has not heard of it. What a record itself
    said of a payment, a later record may take back."""
    known = {each.payment_id: each for each in stored.payments} if stored else {}
    kept = tuple(_kept(connection, each, known.get(each.payment_id)) for each in order.payments)
    return order if kept == order.payments else replace(order, payments=kept)


def _kept(connection: sa.Connection, payment: Payment, stored: Payment | None) -> Payment:
    if payment.charged_back_at:
        return payment
    since = gateway_events.charged_back_since(connection, [payment.payment_id])
    if since and stored and stored.charged_back_at:
        since = stored.charged_back_at
    return replace(payment, charged_back_at=since) if since else payment


def restore(connection: sa.Connection, order: Order) -> Order:
    """Return a locked order with the marks that the gateway's word wants. Code that does not know of
    chargebacks writes payments anew without them, while it runs beside this."""
    kept = keep(connection, order, order)
    for payment in kept.payments:
        if payment not in order.payments:
            mark(connection, order.order_id, payment.payment_id, payment.charged_back_at)
    return kept
