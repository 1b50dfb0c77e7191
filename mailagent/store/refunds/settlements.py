"""Settlements as rows: whether the shop has paid the entries of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.refunds.settlement import (
    Outcome,
    Settlement,
    SettlementRules,
    SettlementState,
)
from mailagent.store import schema
from mailagent.store.database import Row, from_row, in_literals, update_rows
from mailagent.store.pagination import Count, Cursor, Part, Source, Window, moment_of, read_part

_rows, _entries, _orders = schema.ledger_settlements, schema.ledger_entries, schema.orders
_payments = schema.order_payments
_IS_OPEN = in_literals(_rows.c.state, SettlementState.OPEN.value)

COUNTED_MAX = 1_000
FIGURE = "settlements"  # of the inbox
# Stands as the person who decided, if entries count as paid when they are recorded.
AT_ONCE = "at once"

_QUERY = (
    sa.select(
        _rows,
        *(_entries.c[name] for name in ("reference", "order_id", "payment_id")),
        _entries.c.amount_minor,
        _entries.c.credit_minor,
        _entries.c.currency,
        sa.func.coalesce(_orders.c.customer_name, "").label("customer_name"),
        sa.func.coalesce(_payments.c.method, "").label("method"),
    )
    .join(_entries, _entries.c.idempotency_key == _rows.c.idempotency_key)
    .outerjoin(_orders, _orders.c.order_id == _entries.c.order_id)
    .outerjoin(
        _payments,
        sa.and_(
            _payments.c.order_id == _entries.c.order_id,
            _payments.c.payment_id == _entries.c.payment_id,
        ),
    )
)


def open_one(
    connection: sa.Connection, request: RefundRequest, rules: SettlementRules, now: datetime
) -> None:
    """Record the settlement of a new entry, with the date by which to pay it. If `rules` pay at once, it is
    settled; but store credit always waits for a person."""
    decided = {"state": SettlementState.SETTLED.value, "decided_by": AT_ONCE, "decided_at": now}
    values: dict[str, Any] = {
        "idempotency_key": request.idempotency_key,
        "refund_id": request.refund_id,
        "state": SettlementState.OPEN.value,
        "recorded_at": now,
        "due_at": rules.due_at(now),
        "promised": rules.promise_days is not None and request.credit is None,
    }
    method = connection.scalar(
        sa.select(_payments.c.method).where(
            _payments.c.order_id == request.order_id, _payments.c.payment_id == request.payment_id
        )
    )
    is_paid = request.credit is None and rules.pays_at_once(method)
    connection.execute(_rows.insert(), values | (decided if is_paid else {}))


def find(connection: sa.Connection, key: str) -> Settlement | None:
    return next(iter(_list(connection, _QUERY.where(_rows.c.idempotency_key == key))), None)


def lock(connection: sa.Connection, key: str) -> Settlement | None:
    """Lock a settlement until the commit, and return it; None if there is none. Lock its order first."""
    query = _QUERY.where(_rows.c.idempotency_key == key).with_for_update(of=_rows)
    return next(iter(_list(connection, query)), None)


def list_of_payment(connection: sa.Connection, payment_id: str) -> Sequence[Settlement]:
    query = _QUERY.where(_entries.c.payment_id == payment_id)
    return _list(connection, query.order_by(_rows.c.recorded_at))


def list_states(connection: sa.Connection, order_id: str) -> dict[str, SettlementState]:
    """Return the states of an order's settlements, by idempotency key."""
    query = sa.select(_rows.c.idempotency_key, _rows.c.state)
    joined = query.join(_entries, _entries.c.idempotency_key == _rows.c.idempotency_key)
    found = connection.execute(joined.where(_entries.c.order_id == order_id))
    return {row.idempotency_key: SettlementState(row.state) for row in found}


def list_promised(connection: sa.Connection, refund_id: str) -> Sequence[Settlement]:
    """Return the open settlements of a refund whose date the customer was told."""
    promised = _QUERY.where(_rows.c.refund_id == refund_id, _IS_OPEN, _rows.c.promised)
    return _list(connection, promised)


def list_bank_references(connection: sa.Connection, refund_id: str) -> dict[str, str]:
    """Return the bank references of a refund's payments, by idempotency key."""
    query = sa.select(_rows.c.idempotency_key, _rows.c.bank_reference).where(
        _rows.c.refund_id == refund_id, _rows.c.bank_reference.is_not(None)
    )
    return {row.idempotency_key: row.bank_reference for row in connection.execute(query)}


def record(connection: sa.Connection, outcome: Outcome, person: str, now: datetime) -> None:
    """Record what a person reported about a locked settlement."""
    update_rows(
        connection,
        _rows,
        _rows.c.idempotency_key == outcome.idempotency_key,
        state=outcome.state.value,
        decided_by=person,
        decided_at=now,
        bank_reference=sa.func.coalesce(outcome.bank_reference, _rows.c.bank_reference),
        reason=outcome.reason,
    )


# --- lists ----------------------------------------------------------------------------------------


def read(connection: sa.Connection, state: SettlementState, window: Window) -> Part[Settlement]:
    """Return one page of the settlements in a state: open ones ordered by the time of recording, others by the
    time of the report."""
    at = "recorded_at" if state is SettlementState.OPEN else "decided_at"
    source = Source(
        _QUERY.where(in_literals(_rows.c.state, state.value)),
        _rows.c[at],
        _rows.c.idempotency_key,
        _settlement,
    )
    return read_part(
        connection, [source], window, lambda each: Cursor(getattr(each, at), each.idempotency_key)
    )


def list_open(connection: sa.Connection) -> Sequence[Settlement]:
    """Return all open settlements, oldest first."""
    in_turn = _QUERY.where(_IS_OPEN).order_by(_rows.c.recorded_at, _rows.c.idempotency_key)
    return _list(connection, in_turn)


def sum_open(connection: sa.Connection) -> Sequence[Row]:
    """Return the sum and the number of open settlements for each currency; store credit (`is_credit`) apart
    from money."""
    is_credit = _entries.c.credit_minor.is_not(None)
    minor = sa.func.coalesce(_entries.c.credit_minor, _entries.c.amount_minor)
    query = (
        sa.select(
            _entries.c.currency,
            is_credit.label("is_credit"),
            sa.func.count().label("number"),
            sa.func.sum(minor).label("minor"),
        )
        .join(_rows, _rows.c.idempotency_key == _entries.c.idempotency_key)
        .where(_IS_OPEN)
    )
    grouped = query.group_by(_entries.c.currency, is_credit)
    return connection.execute(grouped.order_by("currency", "is_credit")).all()


def count_open(connection: sa.Connection, now: datetime) -> tuple[Count, int]:
    """Count the open settlements, up to a bound, and those that are past their date."""
    oldest = sa.select(_rows.c.recorded_at, _rows.c.due_at).where(_IS_OPEN)
    some = oldest.order_by(_rows.c.recorded_at).limit(COUNTED_MAX + 1).subquery()
    is_late = some.c.due_at < now
    query = sa.select(
        sa.func.count(), sa.func.min(some.c.recorded_at), sa.func.count().filter(is_late)
    )
    number, oldest_at, overdue = connection.execute(query.select_from(some)).one()
    return Count(number, moment_of(oldest_at), COUNTED_MAX), overdue


def take_overdue(connection: sa.Connection, now: datetime, limit: int) -> Sequence[Settlement]:
    """Return open settlements past their date about which operators had no mail, oldest first, and record that
    they have one. Leave out those that a person settles at this moment: to wait could deadlock."""
    query = _QUERY.where(_IS_OPEN, _rows.c.reminded_at.is_(None), _rows.c.due_at < now)
    oldest = query.order_by(_rows.c.due_at).limit(limit)
    due = _list(connection, oldest.with_for_update(of=_rows, skip_locked=True))
    keys = [each.idempotency_key for each in due]
    update_rows(connection, _rows, _rows.c.idempotency_key.in_(keys), reminded_at=now)
    return due


def _list(connection: sa.Connection, query: sa.Select[Any]) -> Sequence[Settlement]:
    return [_settlement(row) for row in connection.execute(query)]


def _settlement(row: Row) -> Settlement:
    credit = None if row.credit_minor is None else Money(row.credit_minor, row.currency)
    return from_row(
        Settlement,
        row,
        state=SettlementState(row.state),
        amount=Money(row.amount_minor, row.currency),
        credit=credit,
        method="store_credit" if credit else row.method,
    )
