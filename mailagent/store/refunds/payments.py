"""Payments that customers made, whichever orders name them: one that two orders name could give back its
money twice, if each looked only at itself. What an order says of its payments is for `orders`."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from mailagent.domain.refunds.order import Order
from mailagent.store import schema

_named = schema.order_payments
_intents, _external = schema.refund_payments, schema.external_refunds
_orders, _refunds = schema.orders, schema.refunds

# The first half of an advisory lock's key, beside those of `caps`.
_PAYMENT = 0x6D61_0003
_LOCK = sa.text("SELECT pg_advisory_xact_lock(:kind, :key)")

# What payments gave back or are giving back, by our refunds and without us.
_OURS_COUNT = (_intents.c.state != "refused", _intents.c.returned_at.is_(None))
_OTHERS_COUNT = _external.c.returned_at.is_(None)


def _sum_on_others(
    amount: sa.ColumnElement[int], payment_id: sa.ColumnElement[str], *where: sa.ColumnElement[bool]
) -> sa.ScalarSelect[int]:
    # Within the row of a payment, not joined with them: nothing but an index leads to a payment then.
    return (
        sa.select(sa.func.coalesce(sa.func.sum(amount), 0))
        .where(payment_id == _named.c.payment_id, *where)
        .correlate(_named, _orders)
        .scalar_subquery()
    )


# What the payments of an order gave back or are giving back on other orders, in minor units; for a query of it.
GIVEN_BACK_ON_OTHERS = (
    sa.select(
        sa.func.coalesce(
            sa.func.sum(
                _sum_on_others(
                    _intents.c.amount_minor,
                    _intents.c.payment_id,
                    *_OURS_COUNT,
                    _refunds.c.refund_id == _intents.c.refund_id,
                    _refunds.c.order_id != _orders.c.order_id,
                )
                + _sum_on_others(
                    _external.c.amount_minor,
                    _external.c.payment_id,
                    _OTHERS_COUNT,
                    _external.c.order_id != _orders.c.order_id,
                )
            ),
            0,
        )
    )
    .where(_named.c.order_id == _orders.c.order_id)
    .correlate(_orders)
    .scalar_subquery()
)


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
    ids = _ids(order)
    ours = sa.select(_intents.c.payment_id, _intents.c.amount_minor)
    others = sa.select(_external.c.payment_id, _external.c.amount_minor)
    found = ours.where(_intents.c.payment_id.in_(ids), *_OURS_COUNT).union_all(
        others.where(_external.c.payment_id.in_(ids), _OTHERS_COUNT)
    )
    given: dict[str, int] = {}
    for payment_id, minor in connection.execute(found):
        given[payment_id] = given.get(payment_id, 0) + minor
    return given


def list_shared(connection: sa.Connection, order: Order) -> tuple[str, ...]:
    """Return which payments of an order another order names, too."""
    of_others = sa.select(_named.c.payment_id).where(
        _named.c.payment_id.in_(_ids(order)), _named.c.order_id != order.order_id
    )
    shared = set(connection.scalars(of_others))
    return tuple(each for each in _ids(order) if each in shared)


def _ids(order: Order) -> list[str]:
    return [payment.payment_id for payment in order.payments]
