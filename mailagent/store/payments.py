"""Payments that customers made, whichever orders name them: one that two orders name could give back its
money twice, if each looked only at itself. What an order says of its payments is for `orders`."""

from __future__ import annotations

import hashlib
from typing import Any

import sqlalchemy as sa

from mailagent.domain.order import Order
from mailagent.store import schema

_named = schema.order_payments
_intents, _outside = schema.refund_payments, schema.outside_refunds
_orders, _refunds = schema.orders, schema.refunds

# The first half of an advisory lock's key, beside those of `caps`.
_PAYMENT = 0x6D61_0003
_LOCK = sa.text("SELECT pg_advisory_xact_lock(:kind, :key)")

# Statements that each refund needs are built once: building one costs about what sending it does.
_other = _named.alias()
# Whether another order names a payment, too.
IS_SHARED = sa.exists().where(
    _other.c.payment_id == _named.c.payment_id, _other.c.order_id != _named.c.order_id
)
# What the payments of an order gave back or are giving back, by our refunds and without us.
_OURS_ARE = (
    _intents.c.payment_id == _named.c.payment_id,
    _intents.c.state != "refused",
    _intents.c.returned_at.is_(None),
)
_OTHERS_ARE = (_outside.c.payment_id == _named.c.payment_id, _outside.c.returned_at.is_(None))
_IS_ORDERS = _named.c.order_id == sa.bindparam("order_id")
_GIVEN_BACK = (
    sa.select(_intents.c.payment_id, _intents.c.amount_minor)
    .where(_IS_ORDERS, *_OURS_ARE)
    .union_all(
        sa.select(_outside.c.payment_id, _outside.c.amount_minor).where(_IS_ORDERS, *_OTHERS_ARE)
    )
)


def _sum_of(amount: sa.ColumnElement[int], *where: sa.ColumnElement[bool]) -> Any:
    return (
        sa.select(sa.func.coalesce(sa.func.sum(amount), 0))
        .where(_named.c.order_id == _orders.c.order_id, *where)
        .correlate(_orders)
        .scalar_subquery()
    )


# What the payments of an order gave back or are giving back on other orders, in minor units; for a query of it.
GIVEN_BACK_ON_OTHERS = _sum_of(
    _intents.c.amount_minor,
    *_OURS_ARE,
    _refunds.c.refund_id == _intents.c.refund_id,
    _refunds.c.order_id != _orders.c.order_id,
) + _sum_of(_outside.c.amount_minor, *_OTHERS_ARE, _outside.c.order_id != _orders.c.order_id)


def lock(connection: sa.Connection, order: Order) -> None:
    """Let nobody else write down what these payments give back until the commit. The order first."""
    # On SQLite every transaction that may write is alone already.
    if connection.dialect.name == "postgresql":
        for payment_id in sorted(_ids(order)):
            digest = hashlib.sha256(payment_id.encode()).digest()
            connection.execute(
                _LOCK, {"kind": _PAYMENT, "key": int.from_bytes(digest[:4], signed=True)}
            )


def given_back(connection: sa.Connection, order: Order) -> dict[str, int]:
    """Return what each payment of an order gave back or is giving back, in minor units: by our refunds
    or without us, on this order or another."""
    given: dict[str, int] = {}
    for payment_id, minor in connection.execute(_GIVEN_BACK, {"order_id": order.order_id}):
        given[payment_id] = given.get(payment_id, 0) + minor
    return given


def _ids(order: Order) -> list[str]:
    return [payment.payment_id for payment in order.payments]
