"""External refunds: made outside mailagent, for example in the gateway's dashboard.

They reduce what we may still refund of an order's payments.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import (
    INTENDED,
    GatewayRefund,
    RefundedTotal,
    RefundRequest,
    RefundState,
)
from mailagent.store import schema
from mailagent.store.database import Row, columns_of, exists, insert_once, update_rows
from mailagent.store.refunds import refund_payments

_external, _payments, _refunds = schema.external_refunds, schema.refund_payments, schema.refunds

# The `gateway` of a row about refunds that only the shop's record of the order reports.
ORDER_RECORD = "order_record"
# The reference of a row begins so if the gateway reported only the total of a payment.
_SUM = "sum"


def reference_of(kind: str, order_id: str, payment_id: str) -> str:
    """Return a reference for a row about a payment, if the gateway has not named a refund."""
    # With the length, two orders never have the same reference, even if an id has a colon.
    return f"{kind}:{len(order_id)}:{order_id}:{payment_id}"


def record(
    connection: sa.Connection, refund: GatewayRefund, order_id: str, payment_id: str, now: datetime
) -> bool:
    """Record an external refund; return whether it was new.

    `payment_id`: the payment's id in the order. A failed refund is recorded as returned, so that an older
    event, which says that it was made, changes nothing.
    """
    if _insert(connection, refund, order_id, payment_id, now):
        _subtract_from_sum(connection, order_id, payment_id, refund.amount.minor)
        return True
    failed = refund.state is RefundState.FAILED
    return failed and mark_returned(connection, refund.reference, now)


def record_failed(
    connection: sa.Connection, reference: str, request: RefundRequest, gateway: str, now: datetime
) -> None:
    """Record a refund of ours that the gateway made but could not carry out, as returned. Another refund
    replaces it under the same key, and late events about this one must not count as a further refund."""
    failed = GatewayRefund(reference, gateway, (), request.amount, RefundState.FAILED)
    _insert(connection, failed, request.order_id, request.payment_id, now)


def is_known_failure(connection: sa.Connection, reference: str) -> bool:
    return exists(
        connection, _external.c.reference == reference, _external.c.returned_at.is_not(None)
    )


def mark_returned(connection: sa.Connection, reference: str, now: datetime) -> bool:
    """Record that the money of an external refund came back to the shop; return whether that was new."""
    is_new = (_external.c.reference == reference, _external.c.returned_at.is_(None))
    return update_rows(connection, _external, *is_new, returned_at=now) > 0


def _insert(
    connection: sa.Connection, refund: GatewayRefund, order_id: str, payment_id: str, now: datetime
) -> bool:
    values = columns_of(
        _external,
        refund,
        order_id=order_id,
        payment_id=payment_id,
        amount_minor=refund.amount.minor,
        currency=refund.amount.currency,
        seen_at=now,
        returned_at=now if refund.state is RefundState.FAILED else None,
    )
    return insert_once(connection, _external, values, "reference")


# --- totals without refunds -----------------------------------------------------------------------


def record_sum(
    connection: sa.Connection, total: RefundedTotal, order_id: str, payment_id: str, now: datetime
) -> int:
    """Record how much of a payment was refunded beyond the refunds that we know, until the gateway names each.

    Return how much that is in minor units, 0 if it is not new.
    """
    reference = reference_of(_SUM, order_id, payment_id)
    known = connection.scalar(
        sa.select(_external.c.amount_minor).where(_external.c.reference == reference)
    )
    # Our refunds in money, also those under way, and external ones. If the total is older than a refund's
    # failure, it still includes that refund.
    named: int = sum(
        part.amount_minor
        for part in refund_payments.list_parts(connection, order_id=order_id)
        if part.payment_id == payment_id
        and part.credit_bonus is None
        and part.gateway in (None, total.gateway)
        and part.reference != reference
        and refund_payments.counts(part, at=total.at)
    )
    minor = total.amount.minor - named
    if minor <= (known or 0):
        return 0
    connection.execute(_external.delete().where(_external.c.reference == reference))
    amount = Money(minor, total.amount.currency)
    rest = GatewayRefund(reference, total.gateway, (), amount, RefundState.SETTLED)
    _insert(connection, rest, order_id, payment_id, now)
    return minor


def _subtract_from_sum(
    connection: sa.Connection, order_id: str, payment_id: str, minor: int
) -> None:
    """Subtract a refund that the gateway has now named from the recorded total."""
    here = _external.c.reference == reference_of(_SUM, order_id, payment_id)
    connection.execute(_external.delete().where(here, _external.c.amount_minor <= minor))
    update_rows(connection, _external, here, amount_minor=_external.c.amount_minor - minor)


# --- read -----------------------------------------------------------------------------------------


def sum_elsewhere(order_id: str | sa.ColumnElement[str]) -> sa.ScalarSelect[int]:
    """Return the expression for the sum of external refunds of an order, in minor units: those that the gateway
    reported, and those in the shop's record of the order."""
    return (
        sa.select(sa.func.coalesce(sa.func.sum(_external.c.amount_minor), 0))
        .where(_external.c.order_id == order_id, _external.c.returned_at.is_(None))
        .scalar_subquery()
    )


def given_back_minor(connection: sa.Connection, order_id: str) -> int:
    return int(connection.scalar(sa.select(sum_elsewhere(order_id))) or 0)


def given_back(connection: sa.Connection, order_id: str, currency: str) -> Money:
    """Return the sum of an order's external refunds. `currency`: of the order."""
    return Money(given_back_minor(connection, order_id), currency)


def has_reported(connection: sa.Connection, order_id: str) -> bool:
    """Return whether the gateway reported an external refund of an order."""
    parts = refund_payments.list_parts(connection, order_id=order_id)
    return any(part.gateway not in (None, ORDER_RECORD) for part in parts)


def list_known(connection: sa.Connection, order_id: str) -> list[Row]:
    """Return the refund payments of an order that the shop's record of it may include: ours, even if we only
    asked the gateway, and external ones that the gateway reported. Store credit is no refund of a payment, so
    the record never includes it."""
    parts = refund_payments.list_parts(connection, order_id=order_id)
    return [
        each
        for each in parts
        if refund_payments.counts(each)
        and each.credit_bonus is None
        and each.gateway != ORDER_RECORD
    ]


def list_named_parts(connection: sa.Connection, payment_id: str) -> list[Row]:
    """Return the refunds of a payment that the gateway can name, ours first: without totals, and without what
    only the shop's record of the order says."""
    named = [
        part
        for part in refund_payments.list_parts(connection, payment_ids=[payment_id])
        if part.gateway is None
        or (part.gateway != ORDER_RECORD and not part.reference.startswith(f"{_SUM}:"))
    ]
    return sorted(
        named, key=lambda part: (part.gateway or "", part.idempotency_key, part.reference)
    )


def list_payments_named(connection: sa.Connection, payment_ids: Sequence[str]) -> Sequence[Row]:
    """Return the orders' payments that have one of these ids, with the order's currency."""
    payments, orders = schema.order_payments, schema.orders
    return connection.execute(
        sa.select(payments.c.order_id, payments.c.payment_id, orders.c.currency)
        .join(orders, orders.c.order_id == payments.c.order_id)
        .where(payments.c.payment_id.in_(payment_ids))
        .order_by(payments.c.order_id)
    ).all()


def list_payment_ids(connection: sa.Connection, since: datetime) -> list[str]:
    """Return the ids of the payments to compare with the gateway: of orders that changed since a time, and of
    our refund payments that were recorded since then or have not ended."""
    payments, orders = schema.order_payments, schema.orders
    changed = (
        sa.select(payments.c.payment_id)
        .join(orders, orders.c.order_id == payments.c.order_id)
        .where(orders.c.updated_at >= since)
    )
    requested = (
        sa.select(_payments.c.payment_id)
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(sa.or_(_payments.c.intended_at >= since, _payments.c.state == INTENDED))
    )
    return sorted(connection.scalars(sa.union(changed, requested)))
