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

# The first half of an advisory lock's key, beside those of `caps`.
_PAYMENT = 0x6D61_0003
_LOCK = sa.text("SELECT pg_advisory_xact_lock(:kind, :key)")

# Statements that each refund needs are built once: building one costs about what sending it does.
_other = _named.alias()
# Whether another order names a payment, too.
IS_SHARED = sa.exists().where(
    _other.c.payment_id == _named.c.payment_id, _other.c.order_id != _named.c.order_id
)
_these: sa.BindParameter[Any] = sa.bindparam("payment_ids", expanding=True)
_BY_OURS = sa.select(_intents.c.payment_id, _intents.c.amount_minor).where(
    _intents.c.payment_id.in_(_these),
    _intents.c.state != "refused",
    _intents.c.returned_at.is_(None),
)
_BY_OTHERS = sa.select(_outside.c.payment_id, _outside.c.amount_minor).where(
    _outside.c.payment_id.in_(_these), _outside.c.returned_at.is_(None)
)
_GIVEN_BACK = _BY_OURS.union_all(_BY_OTHERS)
_GIVEN_BACK_ON_OTHERS = _BY_OURS.where(
    sa.exists().where(
        schema.refunds.c.refund_id == _intents.c.refund_id,
        schema.refunds.c.order_id != sa.bindparam("order_id"),
    )
).union_all(_BY_OTHERS.where(_outside.c.order_id != sa.bindparam("order_id")))


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
    return _sum(connection, _GIVEN_BACK, order)


def given_back_on_others_minor(connection: sa.Connection, order: Order) -> int:
    """Return what the payments of an order gave back or are giving back on other orders."""
    return sum(_sum(connection, _GIVEN_BACK_ON_OTHERS, order, order_id=order.order_id).values())


def _sum(
    connection: sa.Connection, query: sa.CompoundSelect[str, int], order: Order, **values: str
) -> dict[str, int]:
    given: dict[str, int] = {}
    for payment_id, minor in connection.execute(query, {"payment_ids": _ids(order), **values}):
        given[payment_id] = given.get(payment_id, 0) + minor
    return given


def _ids(order: Order) -> list[str]:
    return [payment.payment_id for payment in order.payments]
