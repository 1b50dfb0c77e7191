"""Payments of a refund: one row, the intent, for each payment refunded, written before the gateway is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund
from mailagent.store import schema
from mailagent.store.database import Row

_refunds, _payments = schema.refunds, schema.refund_payments
_external = schema.external_refunds


def intend_payment(
    connection: sa.Connection,
    key: str,
    refund_id: str,
    payment_id: str,
    amount: Money,
    now: datetime,
) -> Row:
    """Record, before the gateway is asked, that it will be asked under `key`. Return the intent."""
    intent = _payments.insert().values(
        idempotency_key=key,
        refund_id=refund_id,
        payment_id=payment_id,
        amount_minor=amount.minor,
        state="asked",
        intended_at=now,
    )
    return connection.execute(intent.returning(_payments)).one()


def list_payments(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    query = sa.select(_payments).where(_payments.c.refund_id == refund_id)
    return connection.execute(query.order_by(_payments.c.idempotency_key)).all()


def find_payment(connection: sa.Connection, key: str) -> Row | None:
    query = sa.select(_payments).where(_payments.c.idempotency_key == key)
    return connection.execute(query).one_or_none()


def list_payments_of(connection: sa.Connection, payment_id: str) -> Sequence[Row]:
    """Return the intents of one payment for any refund, with the refund's currency and order."""
    return connection.execute(
        sa.select(_payments, _refunds.c.order_id, _refunds.c.currency)
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(_payments.c.payment_id == payment_id)
        .order_by(_payments.c.idempotency_key)
    ).all()


def list_refunded(connection: sa.Connection, order: Order) -> Sequence[Row]:
    """Return every refund of an order's payments that was paid or is under way: `order_id`, `payment_id`,
    `amount_minor`. Include refunds made elsewhere, and those of other orders that name the payments."""
    ids = [payment.payment_id for payment in order.payments]
    ours = (
        sa.select(_refunds.c.order_id, _payments.c.payment_id, _payments.c.amount_minor)
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(
            _payments.c.payment_id.in_(ids),
            _payments.c.state != "refused",
            _payments.c.returned_at.is_(None),
        )
    )
    external = sa.select(
        _external.c.order_id, _external.c.payment_id, _external.c.amount_minor
    ).where(_external.c.payment_id.in_(ids), _external.c.returned_at.is_(None))
    return connection.execute(ours.union_all(external)).all()


def refunded_by_payment(connection: sa.Connection, order: Order) -> Counter[str]:
    """Add up `list_refunded` for each payment, in minor units."""
    refunded = Counter[str]()
    for row in list_refunded(connection, order):
        refunded[row.payment_id] += row.amount_minor
    return refunded


def record_payment(connection: sa.Connection, key: str, state: str, **values: Any) -> None:
    """Record what the gateway answered for one intent, unless it is settled.

    A refusal can become a refund, never the other way: of two workflows that asked under one key, the
    one that was told of a refund is right.
    """
    open_states = ["asked", "refused"] if state == "done" else ["asked"]
    connection.execute(
        _payments.update()
        .where(_payments.c.idempotency_key == key, _payments.c.state.in_(open_states))
        .values(state=state, attempts=_payments.c.attempts + 1, **values)
    )


def mark_returned(connection: sa.Connection, key: str, now: datetime, why: str | None) -> bool:
    """Record that a refund that was done has failed after all; return whether that was new."""
    marked = connection.execute(
        _payments.update()
        .where(
            _payments.c.idempotency_key == key,
            _payments.c.returned_at.is_(None),
            _payments.c.state == "done",
        )
        .values(returned_at=now, problem=why)
    )
    return marked.rowcount > 0


# The problem of an intent that the gateway has, but has not settled.
_PENDING, _UNSETTLED = "the gateway has it as ", ", not settled yet"


def pending_problem(reference: str) -> str:
    return f"{_PENDING}{reference}{_UNSETTLED}"


def pending_reference(row: Row) -> str | None:
    """Return the gateway's reference of a refund that it has not settled; None for any other intent."""
    problem = row.problem or ""
    if row.state != "asked" or not problem.startswith(_PENDING):
        return None
    return str(problem).removeprefix(_PENDING).removesuffix(_UNSETTLED)


def describe(connection: sa.Connection, refund: Refund) -> str:
    """Say for each payment of a refund whether it was refunded, for the people who do the rest."""
    parts = []
    for row in list_payments(connection, refund.refund_id):
        amount = Money(row.amount_minor, refund.amount.currency)
        words = f"refunded to payment {row.payment_id}"
        why = row.problem or "no reason given"
        if row.state != "done":
            parts.append(f"{amount} was NOT {words} ({row.problem or row.state})")
        elif row.returned_at:
            parts.append(f"{amount} was NOT {words}: {row.reference} came back ({why})")
        else:
            parts.append(f"{amount} was {words} ({row.reference})")
    return "; ".join(parts)
