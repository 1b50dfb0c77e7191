"""Orders as rows. A customer's view always asks for the address too: nobody sees another's order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.order import Order, OrderLine, OrderProblem, OrderStatus, Payment
from mailagent.store import schema
from mailagent.store.database import Row, insert_once

_orders, _lines, _payments = schema.orders, schema.order_lines, schema.order_payments


class Saved(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class VersionProblem(Exception):
    """The order is not what the caller believes it is; the text says which version is stored."""


def save(
    connection: sa.Connection, order: Order, now: datetime, expected_version: int | None = None
) -> Saved:
    """Create or replace one order; saving the same order again changes nothing.

    `expected_version` is the version that must be stored now (0: none), None for any. Raises
    VersionProblem when it is not, and OrderProblem when the change would take away what refunds
    already stand on: another currency, lines that were refunded, or less paid than was refunded.
    """
    # Created by two at once, the second waits here and then finds the first's.
    created = insert_once(connection, _orders, _row(order, now), "order_id")
    stored = None if created else lock(connection, order.order_id)
    _check_version(0 if created else version(connection, order.order_id), expected_version, order)
    if stored == order:
        return Saved.UNCHANGED
    if stored is not None:
        _check_refunds_stand(connection, stored, order)
        connection.execute(_lines.delete().where(_lines.c.order_id == order.order_id))
        connection.execute(_payments.delete().where(_payments.c.order_id == order.order_id))
        connection.execute(
            _orders.update()
            .where(_orders.c.order_id == order.order_id)
            .values(**_row(order, now), version=_orders.c.version + 1)
        )
    _insert_parts(connection, order)
    return Saved.CREATED if created else Saved.CHANGED


def version(connection: sa.Connection, order_id: str) -> int:
    """Return the version of an order: 1 when it was created, one more with every change, 0 for none."""
    query = sa.select(_orders.c.version).where(_orders.c.order_id == order_id)
    return connection.scalar(query) or 0


def _check_version(stored: int, expected: int | None, order: Order) -> None:
    if expected not in (None, stored):
        found = f"has version {stored}" if stored else "does not exist"
        raise VersionProblem(f"order {order.order_id} {found}, not version {expected}")


def _check_refunds_stand(connection: sa.Connection, stored: Order, order: Order) -> None:
    held = connection.scalar(
        sa.select(_orders.c.held_minor).where(_orders.c.order_id == order.order_id)
    )
    if not held:
        return
    if order.currency != stored.currency:
        raise OrderProblem("currency: cannot change, the order has refunds")
    if order.lines != stored.lines:
        raise OrderProblem("items: cannot change, the order has refunds")
    for name in ("discount", "shipping", "tax"):
        if getattr(order, f"{name}_minor") != getattr(stored, f"{name}_minor"):
            raise OrderProblem(f"{name}: cannot change, the order has refunds")
    if order.paid.minor < held:
        raise OrderProblem(
            f"payments: {order.paid} is less than the {Money(held, order.currency)} of its refunds"
        )


def _row(order: Order, now: datetime) -> dict[str, object]:
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


def _insert_parts(connection: sa.Connection, order: Order) -> None:
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


def find(connection: sa.Connection, order_id: str) -> Order | None:
    """Return the order, whoever's it is: for the shop's own people and code."""
    return _one(connection, sa.select(_orders).where(_orders.c.order_id == order_id))


def find_of_customer(connection: sa.Connection, order_id: str, email: str) -> Order | None:
    """Return the order if it is this customer's; another's looks like one that does not exist."""
    query = sa.select(_orders).where(
        _orders.c.order_id == order_id, _orders.c.customer_email == email
    )
    return _one(connection, query)


def lock(connection: sa.Connection, order_id: str) -> Order | None:
    """Return the order and keep others from changing it or its refunds until the commit."""
    query = sa.select(_orders).where(_orders.c.order_id == order_id).with_for_update()
    return _one(connection, query)


def load(connection: sa.Connection, order_id: str) -> Order:
    """Return an order that must exist. Raises LookupError."""
    order = find(connection, order_id)
    if order is None:
        raise LookupError(f"order {order_id} does not exist")
    return order


def list_of_customer(
    connection: sa.Connection, email: str, limit: int
) -> tuple[tuple[Order, ...], int]:
    """Return the customer's newest `limit` orders, and how many there are in all."""
    mine = _orders.c.customer_email == email
    rows = connection.execute(
        sa.select(_orders)
        .where(mine)
        .order_by(_orders.c.placed_at.desc(), _orders.c.order_id)
        .limit(limit)
    ).all()
    total = len(rows)
    if total == limit:
        total = connection.scalar(sa.select(sa.func.count()).where(mine)) or 0
    return _with_parts(connection, rows), total


def _one(connection: sa.Connection, query: sa.Select[*tuple[Any, ...]]) -> Order | None:
    rows = connection.execute(query).all()
    return _with_parts(connection, rows)[0] if rows else None


def _with_parts(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Order, ...]:
    ids = [row.order_id for row in rows]
    lines = connection.execute(
        sa.select(_lines).where(_lines.c.order_id.in_(ids)).order_by(_lines.c.line_no)
    ).all()
    payments = connection.execute(
        sa.select(_payments).where(_payments.c.order_id.in_(ids)).order_by(_payments.c.position)
    ).all()
    return tuple(_order(row, lines, payments) for row in rows)


def _order(
    row: Row,
    lines: Sequence[Row],
    payments: Sequence[Row],
) -> Order:
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
            if line.order_id == row.order_id
        ),
        payments=tuple(
            Payment(
                payment.payment_id,
                payment.method,
                Money(payment.amount_minor, row.currency),
                payment.charged_back_at,
            )
            for payment in payments
            if payment.order_id == row.order_id
        ),
        discount_minor=row.discount_minor,
        shipping_minor=row.shipping_minor,
        tax_minor=row.tax_minor,
    )


def held_minor(connection: sa.Connection, order_id: str) -> int:
    """Return what refunds of the order were paid or are under way, in minor units."""
    return (
        connection.scalar(sa.select(_orders.c.held_minor).where(_orders.c.order_id == order_id))
        or 0
    )


def customer_since(connection: sa.Connection, email: str) -> datetime | None:
    """Return when the customer first ordered."""
    first: datetime | None = connection.scalar(
        sa.select(sa.func.min(_orders.c.placed_at)).where(_orders.c.customer_email == email)
    )
    return first
