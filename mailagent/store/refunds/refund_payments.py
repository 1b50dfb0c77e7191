"""Payments of a refund: one row for each payment that is refunded, written before the gateway is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.store import schema
from mailagent.store.database import Row

_refunds, _payments = schema.refunds, schema.refund_payments


_PAYMENTS_OF = (
    sa.select(_payments)
    .where(_payments.c.refund_id == sa.bindparam("refund_id"))
    .order_by(_payments.c.idempotency_key)
)


_INSERT_PAYMENT = _payments.insert().returning(_payments)


_RECORD_PAYMENT = (
    _payments.update()
    .where(
        _payments.c.idempotency_key == sa.bindparam("key"),
        _payments.c.state.in_(sa.bindparam("open_states", expanding=True)),
    )
    .values(attempts=_payments.c.attempts + 1)
)


def intend_payment(
    connection: sa.Connection,
    key: str,
    refund_id: str,
    payment_id: str,
    amount: Money,
    now: datetime,
) -> Row:
    """Record, before the gateway is asked, that it will be asked under `key`. Returns the intent."""
    return connection.execute(
        _INSERT_PAYMENT,
        {
            "idempotency_key": key,
            "refund_id": refund_id,
            "payment_id": payment_id,
            "amount_minor": amount.minor,
            "state": "asked",
            "intended_at": now,
        },
    ).one()


def list_payments(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    """Return the payment intents of a refund, in the order of their keys."""
    return connection.execute(_PAYMENTS_OF, {"refund_id": refund_id}).all()


def find_payment(connection: sa.Connection, key: str) -> Row | None:
    """Return the payment intent under an idempotency key."""
    query = sa.select(_payments).where(_payments.c.idempotency_key == key)
    return connection.execute(query).one_or_none()


def list_payments_of(connection: sa.Connection, payment_id: str) -> Sequence[Row]:
    """Return all intents of one payment, of whichever refund, with the refund's currency and order."""
    return connection.execute(
        sa.select(_payments, _refunds.c.order_id, _refunds.c.currency)
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(_payments.c.payment_id == payment_id)
        .order_by(_payments.c.idempotency_key)
    ).all()


def record_payment(connection: sa.Connection, key: str, state: str, **values: Any) -> None:
    """Record what the gateway said about one intent, unless it was settled.

    What is settled stays, but that money was given back is never unlearned: of two runs that asked
    under one key, the one that was told so is right.
    """
    open_states = ["asked", "refused"] if state == "done" else ["asked"]
    here = {"key": key, "open_states": open_states}
    connection.execute(_RECORD_PAYMENT, {**here, "state": state, **values})


# How a payment that the gateway has and has not settled is told from one that it may not have.
_PENDING = "the gateway has it as "


_UNSETTLED = ", not settled yet"


def pending_problem(reference: str) -> str:
    """Return what stands as the problem of an intent that the gateway has not settled."""
    return f"{_PENDING}{reference}{_UNSETTLED}"


def pending_reference(row: Row) -> str | None:
    """Return the gateway's name for a refund that it has not settled; None for an intent of any other
    kind."""
    problem = row.problem or ""
    if row.state != "asked" or not problem.startswith(_PENDING):
        return None
    return str(problem).removeprefix(_PENDING).removesuffix(_UNSETTLED)


def mark_returned(connection: sa.Connection, key: str, now: datetime, why: str | None) -> bool:
    """Record that the gateway's refund under `key`, which was done, has failed after all; return whether
    that was news."""
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
