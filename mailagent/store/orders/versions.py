"""Saves orders of an order source, and a version of each order's record whenever the record has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import parse_money
from mailagent.domain.orders.shipment import ShipmentStatus
from mailagent.domain.refunds.order import Order, OrderProblem, Payment
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.remedies.remedy import Remedy
from mailagent.store import schema
from mailagent.store.database import Row, update_rows
from mailagent.store.refunds import order_import
from mailagent.store.refunds.order_import import Saved, VersionProblem

_versions, _orders = schema.order_versions, schema.orders
_refunds, _external = schema.refunds, schema.external_refunds

# Built once: it is large, and SQLAlchemy would take longer to build it than the database to answer it.
_newest = (
    sa.select(sa.func.max(_versions.c.version))
    .where(_versions.c.order_id == _orders.c.order_id)
    .correlate(_orders)
    .scalar_subquery()
)
_LOCK_LATEST = (
    sa.select(
        _orders.c.order_id,
        _orders.c.customer_email,
        _orders.c.currency,
        _orders.c.version.label("order_version"),
        _orders.c.seen_at,
        _orders.c.look_up_problem_at,
        _versions.c.version,
        _versions.c.record,
        (_orders.c.updated_at <= _versions.c.fetched_at).label("is_current"),
        sa.or_(
            _orders.c.held_minor > 0,
            sa.exists().where(_refunds.c.order_id == _orders.c.order_id),
            sa.exists().where(_external.c.order_id == _orders.c.order_id),
        ).label("has_refunds"),
    )
    .outerjoin(
        _versions,
        sa.and_(_versions.c.order_id == _orders.c.order_id, _versions.c.version == _newest),
    )
    .where(_orders.c.order_id.in_(sa.bindparam("order_ids", expanding=True)))
    .order_by(_orders.c.order_id)
    .with_for_update(of=_orders)
)


@dataclass(frozen=True, slots=True)
class Told:
    """An order from a source. `record`: the same order as JSON in the form of the orders file."""

    order: Order
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """The version of each saved order, and the problem of each order that could not be saved, by order id.
    `overtaken`: orders that were not saved because another look-up was saved since the source was asked.
    `noted`: orders that had a problem before."""

    versions: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    overtaken: list[str] = field(default_factory=list)
    noted: set[str] = field(default_factory=set)


# The version of a stored order, when its source last returned it, and the newest version of its record. Compare
# marks only for equality: machines' clocks may differ.
Mark = tuple[int, datetime | None, int | None]


def find_marks(
    connection: sa.Connection, *, order_id: str | None = None, email: str | None = None
) -> dict[str, Mark]:
    """Return the mark of a stored order, or the marks of a customer's orders, by order id. Read them before the
    source is asked."""
    query = sa.select(
        _orders.c.order_id,
        _orders.c.version.label("order_version"),
        _orders.c.seen_at,
        _newest.label("version"),
    )
    where = _orders.c.order_id == order_id if order_id else _orders.c.customer_email == email
    rows = connection.execute(query.where(where))
    return {row.order_id: _mark(row) for row in rows}


def _mark(row: Row) -> Mark:
    return row.order_version, row.seen_at, row.version


def keep(
    connection: sa.Connection,
    told: Sequence[Told],
    source: str,
    now: datetime,
    is_remote: Callable[[RefundRequest], bool],
    before: Mapping[str, Mark],
) -> Kept:
    """Save orders of a source, whose refunded sums include our own refunds. If our refunds forbid a change,
    report a problem and keep the stored order; the record is a version nevertheless. `is_remote`: as in
    `PaymentGateway`; `before`: the marks of the stored orders before the source was asked. An order with
    another mark is saved only if the newest version says the same: our answer may be older."""
    latest, seen = _lock_latest(connection, [each.order.order_id for each in told]), list[str]()
    kept = Kept(noted={order_id for order_id, row in latest.items() if row.look_up_problem_at})
    # In the order of their ids, so that two concurrent look-ups cannot deadlock.
    for each in sorted(told, key=lambda each: each.order.order_id):
        order_id = each.order.order_id
        known = latest.get(order_id)
        if known and (_mark(known) != before.get(order_id) or not _is_as_stored(known, each)):
            # If we waited for the lock, another look-up may have recorded a version meanwhile.
            known = _lock_latest(connection, [order_id])[order_id]
            if _mark(known) != before.get(order_id) and known.record != each.record:
                kept.overtaken.append(order_id)
                continue
        if known and _is_as_stored(known, each):
            kept.versions[order_id] = known.version
            seen.append(order_id)
            continue
        try:
            order = each.order
            if known:
                order = order_import.as_source_says(connection, order, now, is_remote)
            saved = order_import.save(connection, order, now, None if known else 0)
        except OrderProblem as problem:
            kept.problems[order_id] = str(problem)
            if known and _is_same(known, order):  # `stops` reads there what others refunded
                _record(connection, each, known, Saved.UNCHANGED, source, now)
            continue
        except VersionProblem:  # another look-up has just created it
            kept.overtaken.append(order_id)
            continue
        if saved is Saved.UNCHANGED:
            seen.append(order_id)
        kept.versions[order_id] = _record(connection, each, known, saved, source, now)
    _note_seen(connection, seen, now)
    return kept


def _lock_latest(connection: sa.Connection, order_ids: Sequence[str]) -> dict[str, Row]:
    """Lock these orders, and return their marks and latest versions by order id. `is_current`: no import has
    changed the order since. `has_refunds`: then we read the record again even if it is the same, because the
    meaning of its refunded sums depends on our refunds.

    If this waits for a lock, what is in `orders` is as after the wait, and the rest may be older."""
    rows = connection.execute(_LOCK_LATEST, {"order_ids": list(order_ids)})
    return {row.order_id: row for row in rows}


def _is_as_stored(known: Row, told: Told) -> bool:
    """Return whether saving a record of a locked order would change nothing."""
    return bool(known.record == told.record and known.is_current and not known.has_refunds)


def _is_same(known: Row, order: Order) -> bool:
    """Return whether an order is not another one under the same id, as far as we can tell."""
    return (known.customer_email, known.currency) == (order.customer_email, order.currency)


def _record(
    connection: sa.Connection,
    told: Told,
    latest: Row | None,
    saved: Saved,
    source: str,
    now: datetime,
) -> int:
    """Record a version of a locked order, unless `latest`, its newest one, still is the same; return its
    number."""
    if latest and saved is not Saved.CHANGED and latest.is_current and latest.record == told.record:
        return int(latest.version)
    version = int(latest.version or 0) + 1 if latest else 1
    key = {"order_id": told.order.order_id, "version": version}
    values = {"source": source, "fetched_at": now, "record": told.record}
    connection.execute(_versions.insert(), key | values)
    return version


def _note_seen(connection: sa.Connection, order_ids: Sequence[str], now: datetime) -> None:
    if order_ids:
        fine = {"seen_at": now, "look_up_problem": None, "look_up_problem_at": None}
        update_rows(connection, _orders, _orders.c.order_id.in_(order_ids), **fine)


def note_changed(connection: sa.Connection, order_id: str, before: datetime) -> bool:
    """Set an order's `seen_at` back to at most `before`, because its source says that it has changed: the next
    use looks it up again. Return whether the order is stored."""
    seen_at = sa.case((_orders.c.seen_at > before, before), else_=_orders.c.seen_at)
    return update_rows(connection, _orders, _orders.c.order_id == order_id, seen_at=seen_at) > 0


def units_before(connection: sa.Connection, remedy: Remedy) -> Counter[str]:
    """Return how many units of each item the order had, by the last version before the remedy was asked for."""
    return _units_in(_record_before(connection, remedy.order_id, remedy.requested_at))


def was_sent_before(connection: sa.Connection, remedy: Remedy) -> bool:
    """Return whether a carrier had a parcel of the order, by the last version before the remedy was asked
    for."""
    record = _record_before(connection, remedy.order_id, remedy.requested_at)
    statuses = (ShipmentStatus(each["status"]) for each in (record or {}).get("shipments", ()))
    return any(status is not ShipmentStatus.LABEL_CREATED for status in statuses)


def _record_before(
    connection: sa.Connection, order_id: str, at: datetime
) -> Mapping[str, Any] | None:
    known = list_versions(connection, order_id)
    before = [each for each in known if each.fetched_at <= at]
    return before[-1].record if before else None


def units_now(connection: sa.Connection, order_id: str) -> Counter[str]:
    """Return how many units of each item the order has, by its last version."""
    return _units_in(find_record(connection, order_id))


def _units_in(record: Mapping[str, Any] | None) -> Counter[str]:
    units = Counter[str]()
    for item in record["items"] if record else ():
        units[item["item_id"]] += item["quantity"]
    return units


def payments_now(connection: sa.Connection, order_id: str) -> tuple[Payment, ...]:
    """Return an order's payments by its last version; none if no version is stored. Their refunded sums include
    our own refunds. Nothing else of the record is read: a platform's need not keep the rules of the orders
    file."""
    record = find_record(connection, order_id)
    return (
        tuple(_payment(each, record["currency"]) for each in record["payments"]) if record else ()
    )


def _payment(fields: Mapping[str, Any], currency: str) -> Payment:
    refunded = parse_money(fields.get("refunded", "0"), currency)
    amount = parse_money(fields["amount"], currency)
    return Payment(fields["payment_id"], fields["method"], amount, refunded_minor=refunded.minor)


def find_record(connection: sa.Connection, order_id: str) -> Mapping[str, Any] | None:
    """Return an order's record as its source last returned it; None if no version is stored."""
    query = sa.select(_versions.c.record).where(_versions.c.order_id == order_id)
    record: Mapping[str, Any] | None = connection.scalar(
        query.order_by(_versions.c.version.desc()).limit(1)
    )
    return record


def list_versions(connection: sa.Connection, order_id: str) -> Sequence[Row]:
    """Return the versions of an order, oldest first."""
    query = sa.select(_versions).where(_versions.c.order_id == order_id)
    return connection.execute(query.order_by(_versions.c.version)).all()
