"""Reads and locks orders. For customers, use the functions that take a conversation or an address: customers
reach only their own orders.

Always lock in this order, so that nothing deadlocks: the order (several: by their ids), its customer, the shop,
its payments, its settlements.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from mailagent.domain.money import Money
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus
from mailagent.domain.refunds.order import Order, OrderLine, OrderStatus, Payment
from mailagent.store import schema
from mailagent.store.database import Row, count_rows, from_row, required
from mailagent.store.refunds.external_refunds import ORDER_RECORD, sum_elsewhere

_orders, _lines, _payments = schema.orders, schema.order_lines, schema.order_payments
_refunds, _external, _shipments = schema.refunds, schema.external_refunds, schema.order_shipments

# The first half of the keys of our advisory locks. DBOS uses other keys.
_CUSTOMER, _SHOP, _PAYMENT = 0x6D61_0001, 0x6D61_0002, 0x6D61_0003


# --- read -----------------------------------------------------------------------------------------


def find(connection: sa.Connection, order_id: str) -> Order | None:
    """Return an order of any customer, or None. Only for the shop's people and for code."""
    rows = connection.execute(sa.select(_orders).where(_orders.c.order_id == order_id)).all()
    return with_parts(connection, rows)[0] if rows else None


def load(connection: sa.Connection, order_id: str) -> Order:
    return required(find(connection, order_id), f"order {order_id}")


def find_of_conversation(
    connection: sa.Connection, order_id: str, conversation_id: str
) -> tuple[Order, int] | None:
    """Return an order of the conversation's customer, and the sum of its external refunds in minor units.

    Return None for another customer's order, as for one that does not exist.
    """
    for spelling in spellings(order_id):
        query = sa.select(
            _orders, sum_elsewhere(_orders.c.order_id).label("elsewhere_minor")
        ).where(_orders.c.order_id == spelling, _where_conversation(conversation_id))
        rows = connection.execute(query).all()
        if rows:
            return with_parts(connection, rows)[0], int(rows[0].elsewhere_minor)
    return None


def list_of_customer(
    connection: sa.Connection, email: str, limit: int, *, with_gone: bool = True
) -> tuple[tuple[Order, ...], int]:
    """Return the customer's newest `limit` orders, and how many orders the customer has in all. `with_gone`:
    also those that the order source does not have any more."""
    theirs = _orders.c.customer_email == email
    if not with_gone:
        theirs &= _orders.c.look_up_problem.is_distinct_from(Freshness.GONE.value)
    query = sa.select(_orders).where(theirs)
    query = query.order_by(_orders.c.placed_at.desc(), _orders.c.order_id).limit(limit)
    rows = connection.execute(query).all()
    total = len(rows)
    if total == limit:
        total = count_rows(connection, theirs)
    return with_parts(connection, rows), total


def list_to_price(connection: sa.Connection, order_ids: Collection[str]) -> dict[str, Order]:
    """Return orders by id with what prices need: their lines, and all that was paid as one payment. One query
    reads all of it, because the orders are not locked."""
    line = _lines.c
    query = sa.select(
        _orders,
        *(line.line_no, line.item_id, line.name, line.quantity, line.unit_price_minor),
        line.discount_minor.label("line_discount_minor"),
    ).join(_lines, line.order_id == _orders.c.order_id)
    query = query.where(_orders.c.order_id.in_(order_ids)).order_by(line.line_no)
    return {order_id: _to_price(rows) for order_id, rows in _by_order(connection, query).items()}


def _to_price(rows: Sequence[Row]) -> Order:
    order = rows[0]
    lines = tuple(
        from_row(
            OrderLine,
            row,
            unit_price=Money(row.unit_price_minor, order.currency),
            discount_minor=row.line_discount_minor,
        )
        for row in rows
    )
    paid = Payment("", "", Money(order.paid_minor, order.currency))
    return from_row(Order, order, status=OrderStatus(order.status), lines=lines, payments=(paid,))


def find_owners(connection: sa.Connection, order_ids: Collection[str]) -> dict[str, Row]:
    """Return the name and the mail address of each order's customer, by order id."""
    query = sa.select(_orders.c.order_id, _orders.c.customer_name, _orders.c.customer_email)
    rows = connection.execute(query.where(_orders.c.order_id.in_(order_ids)))
    return {row.order_id: row for row in rows}


def list_names(connection: sa.Connection, email: str, limit: int) -> set[str]:
    """Return the ids of the customer's newest `limit` orders, and the names of their items, in one set."""
    newest = sa.select(_orders.c.order_id).where(_orders.c.customer_email == email)
    newest = newest.order_by(_orders.c.placed_at.desc(), _orders.c.order_id).limit(limit)
    query = sa.select(_lines.c.order_id, _lines.c.name).where(_lines.c.order_id.in_(newest))
    return {name for row in connection.execute(query) for name in row}


def list_owned(connection: sa.Connection, email: str, limit: int) -> dict[str, str]:
    """Return the customer's name in each of their newest `limit` orders, by order id, newest first."""
    query = sa.select(_orders.c.order_id, _orders.c.customer_name)
    query = query.where(_orders.c.customer_email == email)
    newest = query.order_by(_orders.c.placed_at.desc(), _orders.c.order_id).limit(limit)
    return {row.order_id: row.customer_name for row in connection.execute(newest)}


def taken_minor(connection: sa.Connection, order_id: str) -> int:
    """Return the sum of what refunds hold of an order and of external refunds, in minor units."""
    query = sa.select(_orders.c.held_minor + sum_elsewhere(_orders.c.order_id))
    return int(connection.scalar(query.where(_orders.c.order_id == order_id)) or 0)


def held_minor(connection: sa.Connection, order_id: str) -> int:
    """Return how much the order's refunds have paid or may still pay, in minor units."""
    query = sa.select(_orders.c.held_minor).where(_orders.c.order_id == order_id)
    return connection.scalar(query) or 0


def customer_since(connection: sa.Connection, email: str) -> datetime | None:
    query = sa.select(sa.func.min(_orders.c.placed_at)).where(_orders.c.customer_email == email)
    first: datetime | None = connection.scalar(query)
    return first


def list_shared_payments(connection: sa.Connection, order: Order) -> tuple[str, ...]:
    ids = [payment.payment_id for payment in order.payments]
    query = sa.select(_payments.c.payment_id).where(
        _payments.c.payment_id.in_(ids), _payments.c.order_id != order.order_id
    )
    shared = set(connection.scalars(query))
    return tuple(each for each in ids if each in shared)


def _where_conversation(conversation_id: str) -> sa.ColumnElement[bool]:
    conversations = schema.conversations
    theirs = sa.select(conversations.c.customer_email).where(
        conversations.c.conversation_id == conversation_id
    )
    return _orders.c.customer_email == theirs.scalar_subquery()


def spellings(order_id: str) -> Sequence[str]:
    """Return the spellings of an order id that people may mean: with and without a # in front, also in
    capitals."""
    other = order_id[1:] if order_id.startswith("#") else f"#{order_id}"
    return list(dict.fromkeys((order_id, other, order_id.upper(), other.upper())))


# --- lock -----------------------------------------------------------------------------------------


def lock(connection: sa.Connection, order_id: str) -> Order | None:
    """Lock an order until the commit, and return it. Lock its refunds after it: see `refunds.lock`."""
    return _lock(connection, _orders.c.order_id == order_id)


def lock_known(connection: sa.Connection, order_id: str) -> Order:
    return required(lock(connection, order_id), f"order {order_id}")


def lock_of_conversation(
    connection: sa.Connection, order_id: str, conversation_id: str
) -> Order | None:
    """Lock an order of the conversation's customer; see `find_of_conversation`."""
    for spelling in spellings(order_id):
        mine = _where_conversation(conversation_id)
        order = _lock(connection, _orders.c.order_id == spelling, mine)
        if order is not None:
            return order
    return None


def lock_of_refund(connection: sa.Connection, refund_id: str) -> Order | None:
    """Lock the order of a refund; return None if there is no such refund."""
    return _lock(connection, _where_refund(refund_id))


def lock_of_approval(connection: sa.Connection, approval_id: str) -> Order | None:
    """Lock the order of an approval's refund; return None if there is no such approval."""
    approvals = schema.approvals
    of_approval = (
        sa.select(_refunds.c.order_id)
        .join(approvals, approvals.c.refund_id == _refunds.c.refund_id)
        .where(approvals.c.approval_id == approval_id)
        .scalar_subquery()
    )
    return _lock(connection, _orders.c.order_id == of_approval)


def lock_row(connection: sa.Connection, order_id: str) -> None:
    _lock_rows(connection, _orders.c.order_id == order_id)


def lock_row_of_refund(connection: sa.Connection, refund_id: str) -> None:
    _lock_rows(connection, _where_refund(refund_id))


def lock_rows_of_settlements(connection: sa.Connection, keys: Sequence[str]) -> None:
    """Lock the orders of entries of the ledger, by the entries' idempotency keys."""
    # On SQLite there is only one writing transaction at a time.
    if connection.dialect.name == "postgresql":
        entries = schema.ledger_entries.c
        # One array: a file may have more lines than a statement has parameters.
        named = entries.idempotency_key == sa.any_(sa.cast(list(keys), ARRAY(sa.Text)))
        _lock_rows(connection, _orders.c.order_id.in_(sa.select(entries.order_id).where(named)))


def lock_customer(connection: sa.Connection, email: str) -> None:
    """Lock a customer: other transactions decide on no refund of their orders until the commit."""
    _advisory_lock(connection, _CUSTOMER, email)


def lock_shop(connection: sa.Connection) -> None:
    """Lock the shop: other transactions decide on no refund until the commit. Only for a policy with a daily
    cap."""
    _advisory_lock(connection, _SHOP)


def lock_payments(connection: sa.Connection, order: Order) -> None:
    """Lock an order's payments: other transactions record no refund of them until the commit. Another order may
    have the same payments."""
    for payment_id in sorted(payment.payment_id for payment in order.payments):
        _advisory_lock(connection, _PAYMENT, payment_id)


def _advisory_lock(connection: sa.Connection, kind: int, name: str | None = None) -> None:
    # On SQLite there is only one writing transaction at a time.
    if connection.dialect.name == "postgresql":
        digest = hashlib.sha256(name.encode()).digest() if name is not None else bytes(4)
        key = int.from_bytes(digest[:4], signed=True)
        connection.execute(
            sa.text("SELECT pg_advisory_xact_lock(:kind, :key)"), {"kind": kind, "key": key}
        )


def _where_refund(refund_id: str) -> sa.ColumnElement[bool]:
    order_id = sa.select(_refunds.c.order_id).where(_refunds.c.refund_id == refund_id)
    return _orders.c.order_id == order_id.scalar_subquery()


def _lock_rows(connection: sa.Connection, where: sa.ColumnElement[bool]) -> None:
    query = sa.select(_orders.c.order_id).where(where).order_by(_orders.c.order_id)
    connection.execute(query.with_for_update(of=_orders))


def _lock(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> Order | None:
    # Read the lines and payments by later statements: the one that has waited for the lock would see them as
    # they were before.
    query = sa.select(_orders).where(*where).with_for_update(of=_orders)
    rows = connection.execute(query).all()
    return with_parts(connection, rows)[0] if rows else None


# --- rows to orders -------------------------------------------------------------------------------


def with_parts(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Order, ...]:
    """Return the orders of these rows with their lines, payments and parcels.

    Call this in a snapshot or with locked orders, else the parts may be from different versions.
    """
    if not rows:
        return ()
    order_ids = [row.order_id for row in rows]
    lines = _by_order(
        connection,
        sa.select(_lines).where(_lines.c.order_id.in_(order_ids)).order_by(_lines.c.line_no),
    )
    refunded = sa.and_(
        _external.c.order_id == _payments.c.order_id,
        _external.c.payment_id == _payments.c.payment_id,
        _external.c.gateway == ORDER_RECORD,
    )
    payments = _by_order(
        connection,
        sa.select(_payments, _external.c.amount_minor.label("refunded_minor"))
        .outerjoin(_external, refunded)
        .where(_payments.c.order_id.in_(order_ids))
        .order_by(_payments.c.position),
    )
    shipments = _shipments_of(connection, rows)
    return tuple(
        _order(row, lines[row.order_id], payments[row.order_id], shipments.get(row.order_id, ()))
        for row in rows
    )


def _shipments_of(connection: sa.Connection, rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    order_ids = [row.order_id for row in rows if row.shipment_count]
    if not order_ids:
        return {}
    query = sa.select(_shipments).where(_shipments.c.order_id.in_(order_ids))
    return _by_order(connection, query.order_by(_shipments.c.position))


def _by_order(
    connection: sa.Connection, query: sa.Select[*tuple[object, ...]]
) -> Mapping[str, Sequence[Row]]:
    found = defaultdict[str, list[Row]](list)
    for row in connection.execute(query):
        found[row.order_id].append(row)
    return found


def _order(
    row: Row, lines: Sequence[Row], payments: Sequence[Row], shipments: Sequence[Row]
) -> Order:
    def money(minor: int) -> Money:
        return Money(minor, row.currency)

    return from_row(
        Order,
        row,
        status=OrderStatus(row.status),
        lines=tuple(
            from_row(OrderLine, line, unit_price=money(line.unit_price_minor)) for line in lines
        ),
        payments=tuple(
            from_row(
                Payment,
                payment,
                amount=money(payment.amount_minor),
                refunded_minor=payment.refunded_minor or 0,
            )
            for payment in payments
        ),
        shipments=tuple(
            from_row(
                Shipment,
                each,
                status=ShipmentStatus(each.status),
                items=tuple((item_id, quantity) for item_id, quantity in each._mapping["items"]),
            )
            for each in shipments
        ),
    )
