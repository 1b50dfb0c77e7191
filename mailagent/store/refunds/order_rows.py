"""Rows of an order and back: itself, its lines, its payments, and what its record says was given back
elsewhere. Who may see or change an order is for `orders`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderLine, OrderStatus, Payment
from mailagent.store import schema
from mailagent.store.database import Row

_orders, _refunds = schema.orders, schema.refunds
_lines, _payments, _external = (
    schema.order_lines,
    schema.order_payments,
    schema.external_refunds,
)

# Names, among what was given back without us, what the order's own record says of its payments.
ORDER_RECORD = "order_record"

_LINES_OF = (
    sa.select(_lines)
    .where(_lines.c.order_id.in_(sa.bindparam("order_ids", expanding=True)))
    .order_by(_lines.c.line_no)
)
_PAYMENTS_OF = (
    sa.select(_payments, _external.c.amount_minor.label("refunded_minor"))
    .outerjoin(
        _external,
        sa.and_(
            _external.c.order_id == _payments.c.order_id,
            _external.c.payment_id == _payments.c.payment_id,
            _external.c.gateway == ORDER_RECORD,
        ),
    )
    .where(_payments.c.order_id.in_(sa.bindparam("order_ids", expanding=True)))
    .order_by(_payments.c.position)
)

# The order of the refund `refund_id`.
IS_OF_REFUND = (
    _orders.c.order_id
    == sa.select(_refunds.c.order_id)
    .where(_refunds.c.refund_id == sa.bindparam("refund_id"))
    .scalar_subquery()
)
_LOCK = sa.select(_orders.c.order_id).with_for_update()
_LOCK_ROW = _LOCK.where(_orders.c.order_id == sa.bindparam("order_id"))
_LOCK_ROW_OF_REFUND = _LOCK.where(IS_OF_REFUND)


def lock_row(connection: sa.Connection, order_id: str) -> None:
    """Keep others from changing an order or its refunds until the commit, without reading it."""
    connection.execute(_LOCK_ROW, {"order_id": order_id})


def lock_row_of_refund(connection: sa.Connection, refund_id: str) -> None:
    """Lock the order of a refund as `lock_row` does."""
    connection.execute(_LOCK_ROW_OF_REFUND, {"refund_id": refund_id})


def order_values(order: Order, now: datetime) -> dict[str, object]:
    """Return the columns of an order's own row."""
    return {
        "order_id": order.order_id,
        "customer_email": order.customer_email,
        "customer_name": order.customer_name,
        "currency": order.currency,
        "placed_at": order.placed_at,
        "delivered_at": order.delivered_at,
        "status": order.status.value,
        "paid_minor": order.paid.minor,
        "discount_minor": order.discount_minor,
        "tax_minor": order.tax_minor,
        "shipping_minor": order.shipping_minor,
        "updated_at": now,
    }


def insert_parts(connection: sa.Connection, order: Order, now: datetime) -> None:
    """Record the lines and payments of an order whose row is there."""
    connection.execute(
        _lines.insert(),
        [
            {
                "order_id": order.order_id,
                "line_no": line.line_no,
                "item_id": line.item_id,
                "name": line.name,
                "quantity": line.quantity,
                "unit_price_minor": line.unit_price.minor,
                "discount_minor": line.discount_minor,
                "category": line.category,
                "final_sale": line.final_sale,
            }
            for line in order.lines
        ],
    )
    if order.payments:
        connection.execute(
            _payments.insert(),
            [
                {
                    "order_id": order.order_id,
                    "payment_id": payment.payment_id,
                    "position": position,
                    "method": payment.method,
                    "amount_minor": payment.amount.minor,
                    "charged_back_at": payment.charged_back_at,
                }
                for position, payment in enumerate(order.payments)
            ],
        )
    _insert_refunded(connection, order, now)


def delete_parts(connection: sa.Connection, order_id: str) -> None:
    """Take away the lines and payments of an order, for those that come in their place."""
    told = (_external.c.order_id == order_id, _external.c.gateway == ORDER_RECORD)
    connection.execute(_lines.delete().where(_lines.c.order_id == order_id))
    connection.execute(_payments.delete().where(_payments.c.order_id == order_id))
    connection.execute(_external.delete().where(*told))


def _insert_refunded(connection: sa.Connection, order: Order, now: datetime) -> None:
    """Record what was given back elsewhere: a row of its own, so that whatever counts those sees it."""
    rows = [
        {
            "reference": _reference(order.order_id, payment.payment_id),
            "gateway": ORDER_RECORD,
            "order_id": order.order_id,
            "payment_id": payment.payment_id,
            "amount_minor": payment.refunded_minor,
            "currency": order.currency,
            "seen_at": now,
        }
        for payment in order.payments
        if payment.refunded_minor
    ]
    if rows:
        connection.execute(_external.insert(), rows)


def known_refunds(connection: sa.Connection, order_id: str) -> dict[str, int]:
    """Return what each payment of an order gave back by our refunds, or as the gateway told us, in minor
    units."""
    parts, refunds = schema.refund_payments, schema.refunds
    ours = (
        sa.select(parts.c.payment_id, parts.c.amount_minor)
        .join(refunds, refunds.c.refund_id == parts.c.refund_id)
        .where(refunds.c.order_id == order_id, parts.c.state == "done")
        .where(parts.c.returned_at.is_(None))
    )
    told = sa.select(_external.c.payment_id, _external.c.amount_minor).where(
        _external.c.order_id == order_id,
        _external.c.gateway != ORDER_RECORD,
        _external.c.returned_at.is_(None),
    )
    known: dict[str, int] = {}
    for payment_id, minor in connection.execute(ours.union_all(told)).all():
        known[payment_id] = known.get(payment_id, 0) + minor
    return known


def _reference(order_id: str, payment_id: str) -> str:
    # With the length no two orders share one, whatever signs stand in their ids.
    return f"{ORDER_RECORD}:{len(order_id)}:{order_id}:{payment_id}"


def with_parts(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Order, ...]:
    """Return the orders of these rows, each with its lines and payments: of one moment only in a snapshot, or
    while the order is locked."""
    if not rows:
        return ()
    values = {"order_ids": [row.order_id for row in rows]}
    lines = _by_order(connection.execute(_LINES_OF, values).all())
    payments = _by_order(connection.execute(_PAYMENTS_OF, values).all())
    return tuple(_order(row, lines[row.order_id], payments[row.order_id]) for row in rows)


def _by_order(rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    found = defaultdict[str, list[Row]](list)
    for row in rows:
        found[row.order_id].append(row)
    return found


def _order(row: Row, lines: Sequence[Row], payments: Sequence[Row]) -> Order:
    return Order(
        order_id=row.order_id,
        customer_email=row.customer_email,
        customer_name=row.customer_name,
        currency=row.currency,
        placed_at=row.placed_at,
        delivered_at=row.delivered_at,
        status=OrderStatus(row.status),
        lines=tuple(
            OrderLine(
                line.line_no,
                line.item_id,
                line.name,
                line.quantity,
                Money(line.unit_price_minor, row.currency),
                line.discount_minor,
                line.category,
                line.final_sale,
            )
            for line in lines
        ),
        payments=tuple(
            Payment(
                payment.payment_id,
                payment.method,
                Money(payment.amount_minor, row.currency),
                payment.charged_back_at,
                payment.refunded_minor or 0,
            )
            for payment in payments
        ),
        discount_minor=row.discount_minor,
        shipping_minor=row.shipping_minor,
        tax_minor=row.tax_minor,
    )
