"""Rows of an order and back: itself, its lines, its payments, and what its record says was given back
elsewhere. Who may see or change an order is for `orders`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.order import Order, OrderLine, OrderStatus, Payment
from mailagent.store import schema
from mailagent.store.database import Row, UtcDateTime

_orders, _refunds = schema.orders, schema.refunds
_lines, _payments, _outside = (
    schema.order_lines,
    schema.order_payments,
    schema.outside_refunds,
)

# Names, among what was given back without us, what the order's own record says of its payments.
ORDER_RECORD = "order_record"

_ITSELF, _LINE, _PAYMENT, _REFUNDED = 0, 1, 2, 3


def _columns_of(
    kind: int, order_id: sa.ColumnElement[str], **columns: sa.ColumnElement[Any]
) -> list[sa.Label[Any]]:
    nothing: dict[str, sa.ColumnElement[Any]] = {
        "position": sa.literal_column("0", sa.Integer),
        "id": sa.cast(sa.null(), sa.Text),
        "name": sa.cast(sa.null(), sa.Text),
        "quantity": sa.cast(sa.null(), sa.Integer),
        "amount_minor": sa.cast(sa.null(), sa.BigInteger),
        "discount_minor": sa.cast(sa.null(), sa.BigInteger),
        "category": sa.cast(sa.null(), sa.Text),
        "final_sale": sa.cast(sa.null(), sa.Boolean),
        "charged_back_at": sa.cast(sa.null(), UtcDateTime()),
    }
    named = nothing | columns
    return [
        sa.literal_column(str(kind), sa.Integer).label("part_kind"),
        order_id.label("part_of"),
        *(named[name].label(f"part_{name}") for name in sorted(named)),
    ]


def _parts_of(
    is_meant: Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]],
) -> sa.CompoundSelect[*tuple[Any, ...]]:
    """Return one query for all that an order has: three journeys to the database cost three times as much.
    `is_meant`: whether it has this id."""

    def part(kind: int, table: sa.Table, **columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
        order_id = table.c.order_id
        return sa.select(*_columns_of(kind, order_id, **columns)).where(is_meant(order_id))

    lines, payments, refunded = _lines.c, _payments.c, _outside.c
    return sa.union_all(
        part(
            _LINE,
            _lines,
            position=lines.line_no,
            id=lines.item_id,
            name=lines.name,
            quantity=lines.quantity,
            amount_minor=lines.unit_price_minor,
            discount_minor=lines.discount_minor,
            category=lines.category,
            final_sale=lines.final_sale,
        ),
        part(
            _PAYMENT,
            _payments,
            position=payments.position,
            id=payments.payment_id,
            name=payments.method,
            amount_minor=payments.amount_minor,
            charged_back_at=payments.charged_back_at,
        ),
        part(_REFUNDED, _outside, id=refunded.payment_id, amount_minor=refunded.amount_minor).where(
            refunded.gateway == sa.literal_column(f"'{ORDER_RECORD}'")
        ),
    )


_PARTS_OF_ONE = _parts_of(lambda order_id: order_id == sa.bindparam("order_id"))
_ITSELF_AND_PARTS: sa.CompoundSelect[*tuple[Any, ...]] = sa.union_all(
    sa.select(
        *_columns_of(
            _ITSELF,
            sa.cast(sa.bindparam("order_id"), sa.Text),
            position=sa.literal_column("-1", sa.Integer),  # before all parts
        )
    ),
    *_PARTS_OF_ONE.selects,
)
# A list of ids is written into the statement each time: for one order that takes as long as the rest.
_PARTS_OF_SEVERAL = _parts_of(
    lambda order_id: order_id.in_(sa.bindparam("order_ids", expanding=True))
)
_BY_POSITION = "part_position"
_ONES_PARTS = _PARTS_OF_ONE.order_by(_BY_POSITION)
_SEVERALS_PARTS = _PARTS_OF_SEVERAL.order_by(_BY_POSITION)


def joined_parts(query: sa.Select[*tuple[Any, ...]]) -> sa.Select[*tuple[Any, ...]]:
    """Return a query for one order, `order_id`, with what it has: what `query` asks for in the first row, and a
    row for each part after it, see `from_joined`. Nothing is said twice: orders have a thousand lines, and the
    mail that a case tells of 200,000 letters.

    Not for one that locks: who has waited for a lock gets the order as it is then, but its parts as they
    were before.
    """
    parts = _ITSELF_AND_PARTS.subquery("parts")
    is_itself = parts.c.part_kind == sa.literal_column(str(_ITSELF), sa.Integer)
    once = (sa.case((is_itself, each)).label(each.key) for each in query.selected_columns)
    return (
        query.with_only_columns(*once, *parts.c)
        .join_from(_orders, parts, sa.true())
        .order_by(parts.c[_BY_POSITION])
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
    told = (_outside.c.order_id == order_id, _outside.c.gateway == ORDER_RECORD)
    connection.execute(_lines.delete().where(_lines.c.order_id == order_id))
    connection.execute(_payments.delete().where(_payments.c.order_id == order_id))
    connection.execute(_outside.delete().where(*told))


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
        connection.execute(_outside.insert(), rows)


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
    told = sa.select(_outside.c.payment_id, _outside.c.amount_minor).where(
        _outside.c.order_id == order_id,
        _outside.c.gateway != ORDER_RECORD,
        _outside.c.returned_at.is_(None),
    )
    known: dict[str, int] = {}
    for payment_id, minor in connection.execute(ours.union_all(told)).all():
        known[payment_id] = known.get(payment_id, 0) + minor
    return known


def _reference(order_id: str, payment_id: str) -> str:
    # With the length no two orders share one, whatever signs stand in their ids.
    return f"{ORDER_RECORD}:{len(order_id)}:{order_id}:{payment_id}"


def with_parts(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Order, ...]:
    """Return the orders of these rows, each with its lines and payments."""
    if not rows:
        return ()
    ids = [row.order_id for row in rows]
    parts: dict[str, list[Row]] = {order_id: [] for order_id in ids}
    found = (
        connection.execute(_ONES_PARTS, {"order_id": ids[0]})
        if len(ids) == 1
        else connection.execute(_SEVERALS_PARTS, {"order_ids": ids})
    )
    for part in found:
        parts[part.part_of].append(part)
    return tuple(_order(row, parts[row.order_id]) for row in rows)


def from_joined(rows: Sequence[Row]) -> Order:
    """Return the order of the rows of a `joined_parts`, of which there is one at least."""
    return _order(rows[0], rows)


def _order(row: Row, parts: Sequence[Row]) -> Order:
    refunded = {
        part.part_id: part.part_amount_minor for part in parts if part.part_kind == _REFUNDED
    }
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
                part.part_position,
                part.part_id,
                part.part_name,
                part.part_quantity,
                Money(part.part_amount_minor, row.currency),
                part.part_discount_minor,
                part.part_category,
                part.part_final_sale,
            )
            for part in parts
            if part.part_kind == _LINE
        ),
        payments=tuple(
            Payment(
                part.part_id,
                part.part_name,
                Money(part.part_amount_minor, row.currency),
                part.part_charged_back_at,
                refunded.get(part.part_id, 0),
            )
            for part in parts
            if part.part_kind == _PAYMENT
        ),
        discount_minor=row.discount_minor,
        shipping_minor=row.shipping_minor,
        tax_minor=row.tax_minor,
    )
