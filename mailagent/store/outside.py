"""Money that was given back without us, such as in the gateway's dashboard: it counts against what an
order's payments have left, and is not asked of them a second time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.payment import GatewayRefund, RefundState
from mailagent.store import schema
from mailagent.store.database import Row, insert_once
from mailagent.store.order_rows import ORDER_RECORD

_outside = schema.outside_refunds


def record(
    connection: sa.Connection, told: GatewayRefund, order_id: str, payment_id: str, now: datetime
) -> bool:
    """Record a refund that is not ours; return whether it was news. `payment_id` is the order's name
    for the payment. One that has failed is kept as returned, so that a later word that it was made,
    which is an older one, changes nothing."""
    failed = told.state is RefundState.FAILED
    new = insert_once(
        connection,
        _outside,
        {
            "reference": told.reference,
            "gateway": told.gateway,
            "order_id": order_id,
            "payment_id": payment_id,
            "amount_minor": told.amount.minor,
            "currency": told.amount.currency,
            "seen_at": now,
            "returned_at": now if failed else None,
        },
        "reference",
    )
    return new or (failed and mark_returned(connection, told.reference, now))


def mark_returned(connection: sa.Connection, reference: str, now: datetime) -> bool:
    """Record that the money came back to the shop; return whether that was news."""
    marked = connection.execute(
        _outside.update()
        .where(_outside.c.reference == reference, _outside.c.returned_at.is_(None))
        .values(returned_at=now)
    )
    return marked.rowcount > 0


def given_back_minor(connection: sa.Connection, order_id: str) -> int:
    """Return what was given back of an order without us, in minor units."""
    return sum(given_back_by_payment(connection, order_id).values())


def given_back_by_payment(connection: sa.Connection, order_id: str) -> dict[str, int]:
    """Return what each payment of an order gave back without us, in minor units: as the gateway told
    us, and as the shop's record of the order says."""
    query = (
        sa.select(_outside.c.payment_id, sa.func.sum(_outside.c.amount_minor))
        .where(_outside.c.order_id == order_id, _outside.c.returned_at.is_(None))
        .group_by(_outside.c.payment_id)
    )
    return {payment_id: int(minor) for payment_id, minor in connection.execute(query).all()}


def given_back_by_order(connection: sa.Connection, order_ids: Sequence[str]) -> dict[str, int]:
    """Return what was given back of these orders without us, in minor units; only those with any."""
    query = (
        sa.select(_outside.c.order_id, sa.func.sum(_outside.c.amount_minor))
        .where(_outside.c.order_id.in_(order_ids), _outside.c.returned_at.is_(None))
        .group_by(_outside.c.order_id)
    )
    return {order_id: int(minor) for order_id, minor in connection.execute(query).all()}


def list_of_payment(connection: sa.Connection, payment_id: str) -> Sequence[Row]:
    """Return what the gateway told us that was given back of a payment without us, also what came
    back, in the form of `refunds.list_payments_of`."""
    no_text = sa.cast(sa.null(), sa.Text)
    query = sa.select(
        _outside,
        no_text.label("refund_id"),
        no_text.label("idempotency_key"),
        sa.literal("done").label("state"),
    ).where(_outside.c.payment_id == payment_id, _outside.c.gateway != ORDER_RECORD)
    return connection.execute(query.order_by(_outside.c.reference)).all()


def list_payments_named(connection: sa.Connection, payment_ids: Sequence[str]) -> Sequence[Row]:
    """Return the payments of orders that have one of these ids, with their order's currency."""
    payments, orders = schema.order_payments, schema.orders
    return connection.execute(
        sa.select(payments.c.order_id, payments.c.payment_id, orders.c.currency)
        .join(orders, orders.c.order_id == payments.c.order_id)
        .where(payments.c.payment_id.in_(payment_ids))
        .order_by(payments.c.order_id)
    ).all()
