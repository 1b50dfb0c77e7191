"""Refunds made outside mailagent, for example in the gateway's dashboard.

They reduce what may still be refunded of an order's payments.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.refunds.payment import (
    GatewayRefund,
    GivenBack,
    RefundRequest,
    RefundState,
)
from mailagent.store import schema
from mailagent.store.database import Row, insert_once
from mailagent.store.refunds.order_rows import ORDER_RECORD

_external = schema.external_refunds

_BY_PAYMENT = (
    sa.select(_external.c.payment_id, sa.func.sum(_external.c.amount_minor))
    .where(_external.c.order_id == sa.bindparam("order_id"), _external.c.returned_at.is_(None))
    .group_by(_external.c.payment_id)
)


def record(
    connection: sa.Connection, told: GatewayRefund, order_id: str, payment_id: str, now: datetime
) -> bool:
    """Record a refund that is not ours; return whether it was news. `payment_id` is the order's name
    for the payment. One that has failed is kept as returned, so that a later word that it was made,
    which is an older one, changes nothing."""
    failed = told.state is RefundState.FAILED
    new = _insert(connection, told, order_id, payment_id, now)
    if new:
        _take_off_sum(connection, order_id, payment_id, told.amount.minor)
    return new or (failed and mark_returned(connection, told.reference, now))


def record_failed(
    connection: sa.Connection, reference: str, request: RefundRequest, gateway: str, now: datetime
) -> None:
    """Record a refund of ours that the gateway made and could not carry out. Another one will take its place
    under the same key, and words of this one, which come in any order, must not count beside that."""
    failed = GatewayRefund(reference, gateway, (), request.amount, RefundState.FAILED)
    _insert(connection, failed, request.order_id, request.payment_id, now)


def is_known_failure(connection: sa.Connection, reference: str) -> bool:
    """Return whether it is on record that a refund came to nothing."""
    known = _external.c.reference == reference, _external.c.returned_at.is_not(None)
    return connection.scalar(sa.select(sa.literal(1)).where(*known)) is not None


def _insert(
    connection: sa.Connection, told: GatewayRefund, order_id: str, payment_id: str, now: datetime
) -> bool:
    return insert_once(
        connection,
        _external,
        {
            "reference": told.reference,
            "gateway": told.gateway,
            "order_id": order_id,
            "payment_id": payment_id,
            "amount_minor": told.amount.minor,
            "currency": told.amount.currency,
            "seen_at": now,
            "returned_at": now if told.state is RefundState.FAILED else None,
        },
        "reference",
    )


def record_sum(
    connection: sa.Connection, told: GivenBack, order_id: str, payment_id: str, now: datetime
) -> int:
    """Record what a payment gave back beyond the refunds that we know of, until each is told of by its
    name; return how much that is in minor units, 0 if it is no news."""
    minor = told.total.minor - _named_minor(connection, told, order_id, payment_id)
    reference = _sum_reference(order_id, payment_id)
    known = connection.scalar(
        sa.select(_external.c.amount_minor).where(_external.c.reference == reference)
    )
    if minor <= (known or 0):
        return 0
    connection.execute(_external.delete().where(_external.c.reference == reference))
    connection.execute(
        _external.insert().values(
            reference=reference,
            gateway=told.gateway,
            order_id=order_id,
            payment_id=payment_id,
            amount_minor=minor,
            currency=told.total.currency,
            seen_at=now,
        )
    )
    return minor


def _named_minor(connection: sa.Connection, told: GivenBack, order_id: str, payment_id: str) -> int:
    """What of a sum is known by name: ours, also what is being asked for, and what others gave back. The
    sum may be older than a failure that we have heard of."""
    ours, refunds = schema.refund_payments, schema.refunds
    queries = (
        sa.select(sa.func.sum(ours.c.amount_minor))
        .join(refunds, refunds.c.refund_id == ours.c.refund_id)
        .where(
            refunds.c.order_id == order_id,
            ours.c.payment_id == payment_id,
            ours.c.state != "refused",
            sa.or_(ours.c.returned_at.is_(None), ours.c.returned_at > told.at),
        ),
        sa.select(sa.func.sum(_external.c.amount_minor)).where(
            _external.c.order_id == order_id,
            _external.c.payment_id == payment_id,
            _external.c.gateway == told.gateway,
            _external.c.reference != _sum_reference(order_id, payment_id),
            sa.or_(_external.c.returned_at.is_(None), _external.c.returned_at > told.at),
        ),
    )
    return sum(int(connection.scalar(query) or 0) for query in queries)


def _take_off_sum(connection: sa.Connection, order_id: str, payment_id: str, minor: int) -> None:
    """Take a refund that is known by name now off the sum of those that are not."""
    here = _external.c.reference == _sum_reference(order_id, payment_id)
    connection.execute(_external.delete().where(here, _external.c.amount_minor <= minor))
    connection.execute(
        _external.update().where(here).values(amount_minor=_external.c.amount_minor - minor)
    )


# Begins the reference of what a payment gave back by refunds that were not named.
_SUM = "sum:"


def _sum_reference(order_id: str, payment_id: str) -> str:
    return f"{_SUM}{len(order_id)}:{order_id}:{payment_id}"


def is_told_of(connection: sa.Connection, order_id: str) -> bool:
    """Return whether the gateway told us of money of an order that was given back without us."""
    query = sa.select(sa.literal(1)).where(
        _external.c.order_id == order_id, _external.c.gateway != ORDER_RECORD
    )
    return connection.scalar(query.limit(1)) is not None


def mark_returned(connection: sa.Connection, reference: str, now: datetime) -> bool:
    """Record that the money came back to the shop; return whether that was news."""
    marked = connection.execute(
        _external.update()
        .where(_external.c.reference == reference, _external.c.returned_at.is_(None))
        .values(returned_at=now)
    )
    return marked.rowcount > 0


def given_back_minor(connection: sa.Connection, order_id: str) -> int:
    """Return what was given back of an order without us, in minor units."""
    return sum(given_back_by_payment(connection, order_id).values())


def given_back_by_payment(connection: sa.Connection, order_id: str) -> dict[str, int]:
    """Return what each payment of an order gave back without us, in minor units: as the gateway told
    us, and as the shop's record of the order says."""
    rows = connection.execute(_BY_PAYMENT, {"order_id": order_id}).all()
    return {payment_id: int(minor) for payment_id, minor in rows}


def list_of_payment(connection: sa.Connection, payment_id: str) -> Sequence[Row]:
    """Return what the gateway told us that was given back of a payment without us, also what came
    back, in the form of `refunds.list_payments_of`."""
    no_text = sa.cast(sa.null(), sa.Text)
    query = sa.select(
        _external,
        no_text.label("refund_id"),
        no_text.label("idempotency_key"),
        sa.literal("done").label("state"),
    ).where(
        _external.c.payment_id == payment_id,
        _external.c.gateway != ORDER_RECORD,
        ~_external.c.reference.startswith(_SUM),
    )
    return connection.execute(query.order_by(_external.c.reference)).all()


def list_payments_named(connection: sa.Connection, payment_ids: Sequence[str]) -> Sequence[Row]:
    """Return the payments of orders that have one of these ids, with their order's currency."""
    payments, orders = schema.order_payments, schema.orders
    return connection.execute(
        sa.select(payments.c.order_id, payments.c.payment_id, orders.c.currency)
        .join(orders, orders.c.order_id == payments.c.order_id)
        .where(payments.c.payment_id.in_(payment_ids))
        .order_by(payments.c.order_id)
    ).all()


# --- ledger check ---------------------------------------------------------------------------------


_payments, _refunds = schema.refund_payments, schema.refunds


def list_payment_ids(connection: sa.Connection, since: datetime) -> list[str]:
    """Return the payments of orders that changed since a time, and those that a refund asked for since
    then, or one that is still to be paid, was to give back."""
    changed = (
        sa.select(schema.order_payments.c.payment_id)
        .join(schema.orders, schema.orders.c.order_id == schema.order_payments.c.order_id)
        .where(schema.orders.c.updated_at >= since)
    )
    asked = (
        sa.select(_payments.c.payment_id)
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(sa.or_(_payments.c.intended_at >= since, _payments.c.state == "asked"))
    )
    return sorted(connection.scalars(sa.union(changed, asked)))
