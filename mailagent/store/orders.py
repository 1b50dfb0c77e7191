"""Orders as rows. A customer's view always asks for the address too: nobody sees another's order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.order import Order, OrderProblem
from mailagent.store import chargebacks, order_rows, schema
from mailagent.store.database import insert_once

_orders = schema.orders


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
    created = insert_once(connection, _orders, order_rows.order_values(order, now), "order_id")
    stored = None if created else lock(connection, order.order_id)
    _check_version(0 if created else version(connection, order.order_id), expected_version, order)
    order = chargebacks.keep(connection, order, stored)
    if stored == order:
        return Saved.UNCHANGED
    if stored is not None:
        _check_refunds_stand(connection, stored, order)
        order_rows.delete_parts(connection, order.order_id)
        connection.execute(
            _orders.update()
            .where(_orders.c.order_id == order.order_id)
            .values(**order_rows.order_values(order, now), version=_orders.c.version + 1)
        )
    order_rows.insert_parts(connection, order, now)
    return Saved.CREATED if created else Saved.CHANGED


def without_ours(connection: sa.Connection, order: Order) -> Order:
    """Return `order` with what its payments gave back elsewhere less what we know of already: our own
    refunds, and such as the gateway told us of."""
    known = order_rows.known_refunds(connection, order.order_id)
    return replace(
        order,
        payments=tuple(
            replace(
                each, refunded_minor=max(0, each.refunded_minor - known.get(each.payment_id, 0))
            )
            for each in order.payments
        ),
    )


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
    return order_rows.with_parts(connection, rows), total


def _one(connection: sa.Connection, query: sa.Select[*tuple[Any, ...]]) -> Order | None:
    rows = connection.execute(query).all()
    return order_rows.with_parts(connection, rows)[0] if rows else None


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
