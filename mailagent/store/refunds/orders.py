"""Orders as rows. A customer's view always asks for the address too: nobody sees another's order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderProblem, Payment
from mailagent.store import schema
from mailagent.store.database import insert_once
from mailagent.store.refunds import external_refunds, gateway_events, order_rows, payment_events

_orders, _external = schema.orders, schema.external_refunds

# What was given back of an order without us.
ELSEWHERE = (
    sa.select(sa.func.coalesce(sa.func.sum(_external.c.amount_minor), 0))
    .where(_external.c.order_id == _orders.c.order_id, _external.c.returned_at.is_(None))
    .scalar_subquery()
)
_OF_CUSTOMER = (
    sa.select(_orders)
    .where(_orders.c.customer_email == sa.bindparam("email"))
    .order_by(_orders.c.placed_at.desc(), _orders.c.order_id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_OF_CUSTOMER_WITH_ELSEWHERE = _OF_CUSTOMER.add_columns(ELSEWHERE.label("elsewhere_minor"))
_BY_ID = sa.select(_orders).where(_orders.c.order_id == sa.bindparam("order_id"))
_IS_CUSTOMERS = _orders.c.customer_email == sa.bindparam("email")
_IS_OF_CONVERSATION = (
    _orders.c.customer_email
    == sa.select(schema.conversations.c.customer_email)
    .where(schema.conversations.c.conversation_id == sa.bindparam("conversation_id"))
    .scalar_subquery()
)
_BY_ID_OF_CONVERSATION = _BY_ID.add_columns(ELSEWHERE.label("elsewhere_minor")).where(
    _IS_OF_CONVERSATION
)
_LOCKED = sa.select(_orders).with_for_update(of=_orders)
_LOCK = _LOCKED.where(_orders.c.order_id == sa.bindparam("order_id"))
_LOCK_OF_CONVERSATION = _LOCK.where(_IS_OF_CONVERSATION)
_LOCK_OF_REFUND = _LOCKED.where(order_rows.IS_OF_REFUND)
_LOCK_OF_APPROVAL = _LOCKED.where(
    _orders.c.order_id
    == sa.select(schema.refunds.c.order_id)
    .join(schema.approvals, schema.approvals.c.refund_id == schema.refunds.c.refund_id)
    .where(schema.approvals.c.approval_id == sa.bindparam("approval_id"))
    .scalar_subquery()
)

_HELD = sa.select(_orders.c.held_minor).where(_orders.c.order_id == sa.bindparam("order_id"))
_CUSTOMER_SINCE = sa.select(sa.func.min(_orders.c.placed_at)).where(_IS_CUSTOMERS)
_TAKEN = sa.select(_orders.c.held_minor + ELSEWHERE).where(
    _orders.c.order_id == sa.bindparam("order_id")
)


class Saved(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class VersionProblem(Exception):
    """The order is not what the caller believes it is; the text says which version is stored."""


def save(
    connection: sa.Connection, order: Order, now: datetime, expected_version: int | None = None
) -> Saved:
    """Create or replace one order; saving the same order again changes nothing, whatever is expected
    but 0: the answer to the first time may have been lost (RFC 9110 section 13.1.1).

    `expected_version` is the version that must be stored now (0: none), None for any. Raises
    VersionProblem when it is not, and OrderProblem when the change would take away what refunds
    already stand on: another currency, lines that were refunded, or less paid than was refunded.
    """
    # Created by two at once, the second waits here and then finds the first's.
    values = order_rows.order_values(order, now)
    created = insert_once(connection, _orders, values, "order_id")
    stored = None if created else lock_known(connection, order.order_id)
    order = gateway_events.keep(connection, order, stored)
    if stored == order and expected_version != 0:
        payment_events.catch_up(connection, order, now)
        return Saved.UNCHANGED
    _check_version(0 if created else version(connection, order.order_id), expected_version, order)
    if stored is not None:
        _check_refunds_stand(connection, stored, order)
        order_rows.delete_parts(connection, order.order_id)
        connection.execute(
            _orders.update()
            .where(_orders.c.order_id == order.order_id)
            .values(**order_rows.order_values(order, now), version=_orders.c.version + 1)
        )
    order_rows.insert_parts(connection, order, now)
    payment_events.catch_up(connection, order, now)
    return Saved.CREATED if created else Saved.CHANGED


def without_ours(connection: sa.Connection, order: Order) -> Order:
    """Return `order` with what its payments gave back elsewhere less what we know of already: our own
    refunds, and such as the gateway told us of. The order is locked until the commit.

    Never less than is on record: a file that is older than one of our refunds does not have it in
    its sums, and what is taken off then is somebody else's.
    """
    stored = lock(connection, order.order_id)
    kept = {each.payment_id: each.refunded_minor for each in stored.payments} if stored else {}
    known = order_rows.known_refunds(connection, order.order_id)

    def elsewhere(told: Payment) -> Payment:
        others = told.refunded_minor - known.get(told.payment_id, 0)
        least = min(kept.get(told.payment_id, 0), told.amount.minor)
        return replace(told, refunded_minor=max(least, others, 0))

    return replace(order, payments=tuple(elsewhere(each) for each in order.payments))


def version(connection: sa.Connection, order_id: str) -> int:
    """Return the version of an order: 1 when it was created, one more with every change, 0 for none."""
    query = sa.select(_orders.c.version).where(_orders.c.order_id == order_id)
    return connection.scalar(query) or 0


def _check_version(stored: int, expected: int | None, order: Order) -> None:
    if expected not in (None, stored):
        if expected == 0:
            raise VersionProblem(f"order {order.order_id} exists already, in version {stored}")
        found = f"has version {stored}" if stored else "does not exist"
        raise VersionProblem(f"order {order.order_id} {found}, not version {expected}")


def _check_refunds_stand(connection: sa.Connection, stored: Order, order: Order) -> None:
    held = connection.scalar(
        sa.select(_orders.c.held_minor).where(_orders.c.order_id == order.order_id)
    )
    if order.currency != stored.currency and external_refunds.is_told_of(
        connection, order.order_id
    ):
        raise OrderProblem("currency: cannot change, money of the order was given back elsewhere")
    if not held:
        return
    if order.currency != stored.currency:
        raise OrderProblem("currency: cannot change, the order has refunds")
    if _worths(order) != _worths(stored):
        raise OrderProblem("items: cannot change, the order has refunds")
    for name in ("discount", "shipping", "tax"):
        if getattr(order, f"{name}_minor") != getattr(stored, f"{name}_minor"):
            raise OrderProblem(f"{name}: cannot change, the order has refunds")
    if order.paid.minor < held:
        raise OrderProblem(
            f"payments: {order.paid} is less than the {Money(held, order.currency)} of its refunds"
        )


def _worths(order: Order) -> list[tuple[object, ...]]:
    """Return of each line what refunds stand on. Names, categories and final sale may be put right."""
    return [
        (line.line_no, line.item_id, line.quantity, line.unit_price, line.discount_minor)
        for line in order.lines
    ]


def find(connection: sa.Connection, order_id: str) -> Order | None:
    """Return the order, whoever's it is: for the shop's own people and code."""
    rows = connection.execute(_BY_ID, {"order_id": order_id}).all()
    return order_rows.with_parts(connection, rows)[0] if rows else None


def find_of_conversation(
    connection: sa.Connection, order_id: str, conversation_id: str
) -> tuple[Order, int] | None:
    """Return the order if it is that of a conversation's customer, and what was given back of it without us,
    in minor units; another's looks like one that does not exist.

    People leave out the # that some shops' numbers begin with, or write one where there is none.
    """
    for name in (order_id, _other_way(order_id)):
        values = {"order_id": name, "conversation_id": conversation_id}
        rows = connection.execute(_BY_ID_OF_CONVERSATION, values).all()
        if rows:
            return order_rows.with_parts(connection, rows)[0], int(rows[0].elsewhere_minor)
    return None


def lock_of_conversation(
    connection: sa.Connection, order_id: str, conversation_id: str
) -> Order | None:
    """Return the order if it is that of a conversation's customer, as `find_of_conversation` does, locked as by
    `lock`."""
    for name in (order_id, _other_way(order_id)):
        values = {"order_id": name, "conversation_id": conversation_id}
        found = _lock(connection, _LOCK_OF_CONVERSATION, **values)
        if found is not None:
            return found
    return None


def _other_way(order_id: str) -> str:
    return order_id[1:] if order_id.startswith("#") else f"#{order_id}"


def lock(connection: sa.Connection, order_id: str) -> Order | None:
    """Return the order and keep others from changing it or its refunds until the commit."""
    return _lock(connection, _LOCK, order_id=order_id)


def lock_known(connection: sa.Connection, order_id: str) -> Order:
    """Return an order that must exist, locked as by `lock`. Raises LookupError."""
    order = lock(connection, order_id)
    if order is None:
        raise LookupError(f"order {order_id} does not exist")
    return order


def lock_of_refund(connection: sa.Connection, refund_id: str) -> Order | None:
    """Return the order of a refund, locked as by `lock`; None for no such refund."""
    return _lock(connection, _LOCK_OF_REFUND, refund_id=refund_id)


def lock_of_approval(connection: sa.Connection, approval_id: str) -> Order | None:
    """Return the order whose refund an approval is about, locked as by `lock`; None for no such approval."""
    return _lock(connection, _LOCK_OF_APPROVAL, approval_id=approval_id)


def _lock(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], **values: str
) -> Order | None:
    # The parts are read after the lock. In one statement with it, a transaction that had to wait for the lock
    # would see the parts as they were before.
    rows = connection.execute(query, values).all()
    found = order_rows.with_parts(connection, rows)
    return gateway_events.restore(connection, found[0]) if found else None


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
    rows = connection.execute(_OF_CUSTOMER, {"email": email, "most": limit}).all()
    total = len(rows)
    if total == limit:
        mine = _orders.c.customer_email == email
        total = connection.scalar(sa.select(sa.func.count()).where(mine)) or 0
    return order_rows.with_parts(connection, rows), total


def list_with_elsewhere(
    connection: sa.Connection, email: str, limit: int
) -> tuple[tuple[Order, ...], dict[str, int]]:
    """Return the customer's newest `limit` orders, and what was given back of each without us, in minor
    units; only of those with any."""
    values = {"email": email, "most": limit}
    rows = connection.execute(_OF_CUSTOMER_WITH_ELSEWHERE, values).all()
    elsewhere = {row.order_id: int(row.elsewhere_minor) for row in rows if row.elsewhere_minor}
    return order_rows.with_parts(connection, rows), elsewhere


def held_minor(connection: sa.Connection, order_id: str) -> int:
    """Return what refunds of the order were paid or are under way, in minor units."""
    return connection.scalar(_HELD, {"order_id": order_id}) or 0


def taken_minor(connection: sa.Connection, order_id: str) -> int:
    """Return what is gone of an order's money, in minor units: held by refunds, or given back without us."""
    return int(connection.scalar(_TAKEN, {"order_id": order_id}) or 0)


def customer_since(connection: sa.Connection, email: str) -> datetime | None:
    """Return when the customer first ordered."""
    first: datetime | None = connection.scalar(_CUSTOMER_SINCE, {"email": email})
    return first
