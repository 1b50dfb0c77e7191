"""Saves orders from the shop's records, and protects what our refunds and the gateway's disputes depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderProblem, Payment
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.refunds.refund import MAY_BE_PAID
from mailagent.domain.refunds.settlement import SettlementState
from mailagent.store import schema
from mailagent.store.database import Row, columns_of, insert_once, update_rows
from mailagent.store.refunds import (
    external_refunds,
    gateway_events,
    orders,
    refund_payments,
    refunds,
    settlements,
)
from mailagent.store.refunds.external_refunds import ORDER_RECORD

_orders, _lines, _payments = schema.orders, schema.order_lines, schema.order_payments
_external, _shipments = schema.external_refunds, schema.order_shipments

_COSTS = ("discount_minor", "shipping_minor", "tax_minor")
# The shop's record of an order may lack a refund that its gateway made within this time.
RECORD_LAGS = timedelta(minutes=5)
# How an address ends that a shop's system writes for an erased customer: WooCommerce's is deleted@site.invalid.
# Shopify's is empty.
ERASED_IN_SHOP = ".invalid"


class Saved(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class VersionProblem(Exception):
    """The stored version is not the expected one; the text says which version is stored."""


def save(
    connection: sa.Connection, order: Order, now: datetime, expected_version: int | None = None
) -> Saved:
    """Create or replace an order. Saving the stored order again changes nothing, if any
    version but 0 is expected: the response to an earlier request may have been lost (RFC 9110 section 13.1.1).

    `expected_version` is the version that must be stored now (0: none), None for any. Raises
    VersionProblem for another version, and OrderProblem for a change that refunds do not allow:
    another currency, other lines, or less paid than was refunded.
    """
    order = bare_if_erased(order)
    # Of two transactions that create the same order, the second waits here and then finds the first's row.
    created = insert_once(connection, _orders, _values(order, now), "order_id")
    stored = None if created else orders.lock_known(connection, order.order_id)
    if stored is not None:
        order = gateway_events.with_chargebacks(connection, order, stored)
    if stored == order and expected_version != 0:
        gateway_events.apply_earlier_events(connection, order, now)
        return Saved.UNCHANGED
    _check_version(0 if created else version(connection, order.order_id), expected_version, order)
    if stored is not None:
        _check_refunds_allow(connection, stored, order)
        _delete_parts(connection, order.order_id)
        values = _values(order, now) | {"version": _orders.c.version + 1}
        update_rows(connection, _orders, _orders.c.order_id == order.order_id, **values)
    _insert_parts(connection, order, now)
    gateway_events.apply_earlier_events(connection, order, now)
    return Saved.CREATED if created else Saved.CHANGED


def bare_if_erased(order: Order) -> Order:
    """Return an order; if its customer was erased in the shop's system, without what leads to a carrier's page
    of a parcel, which shows name and address. A parcel's id may be its tracking number."""
    if order.customer_email and not order.customer_email.endswith(ERASED_IN_SHOP):
        return order
    bare = (
        replace(each, shipment_id=f"erased {number}", tracking_number=None, tracking_url=None)
        for number, each in enumerate(order.shipments)
    )
    return replace(order, shipments=tuple(bare))


def without_known_refunds(connection: sa.Connection, order: Order) -> Order:
    """Lock an order from a file, and subtract our own refunds, and those that the gateway reported, from its
    refunded sums, so that only other external refunds remain.

    The result is never less than the stored sums, because a file may be older than one of our refunds.
    """
    stored = orders.lock(connection, order.order_id)
    if stored is None:
        return order  # an order that is not stored has no refunds
    known = [
        each
        for each in external_refunds.list_known(connection, order.order_id)
        if each.state == "done"
    ]
    return _with_elsewhere(order, stored, known, (), None)


def as_source_says(
    connection: sa.Connection,
    order: Order,
    now: datetime,
    is_remote: Callable[[RefundRequest], bool],
) -> Order:
    """Lock an order that its source has just returned, and subtract the refunds that we know from its refunded
    sums. External refunds may become less again, because the newest record is right.

    We cannot know whether the record includes a refund that the gateway has not settled, that is younger than
    RECORD_LAGS, or that the shop itself pays (`is_remote` returns False): people may pay what the ledger lists
    in the shop's system, and say so days later. As long as these refunds can explain the record, the stored sum
    of external refunds stays.
    """
    stored = orders.lock(connection, order.order_id)
    if stored is None:
        return order
    told, unsure = _list_told_and_unsure(connection, order.order_id, now, is_remote)
    told_by_source = _with_elsewhere(order, stored, told, unsure, 0)
    return _with_units_we_refunded(connection, stored, told_by_source)


def more_elsewhere_minor(
    connection: sa.Connection, order: Order, payments: Sequence[Payment], not_made: Container[str]
) -> int:
    """Return how much more was refunded externally than the stored `order` says, in minor units, if the refund
    payments with the idempotency keys `not_made` were not made. `payments`: as in the source's record of the
    order, which then does not include those refund payments."""
    known = external_refunds.list_known(connection, order.order_id)
    made = [each for each in known if each.idempotency_key not in not_made]
    explained = refund_payments.sum_by_payment(made)
    for payment in order.payments:
        explained[payment.payment_id] += payment.refunded_minor
    return sum(max(0, each.refunded_minor - explained[each.payment_id]) for each in payments)


def _list_told_and_unsure(
    connection: sa.Connection,
    order_id: str,
    now: datetime,
    is_remote: Callable[[RefundRequest], bool],
) -> tuple[list[Row], list[Row]]:
    """Return the refund payments that the source's record of an order includes, and those that it may
    include."""
    told, unsure = [], []
    listed = settlements.list_states(connection, order_id)
    for each in external_refunds.list_known(connection, order_id):
        at_gateway, is_done = is_remote(_request_of(each)), each.state == "done"
        if at_gateway and is_done and each.known_at < now - RECORD_LAGS:
            told.append(each)
        elif at_gateway or is_done or _may_be_paid(listed.get(each.idempotency_key)):
            unsure.append(each)  # the shop knows nothing of the other ones
    return told, unsure


def _may_be_paid(state: SettlementState | None) -> bool:
    return state in (SettlementState.OPEN, SettlementState.SETTLED)


def _with_units_we_refunded(connection: sa.Connection, stored: Order, order: Order) -> Order:
    """Return an order with its stored lines and costs if the shop's record differs only by our refunds: it
    lacks units that they cover; or they cover all stored units, and the record has these and more, worth at
    most the external refunds, because platforms list the whole order again when nothing is left of it.

    If external refunds rose at the same time, do not count refunds that we may still pay: the shop may have
    refunded their units itself. Then the order is returned as it is, and people decide."""
    if not orders.held_minor(connection, order.order_id):
        return order
    before, after = _units(stored), _units(order)
    ours = _units_of_refunds(
        connection, stored, with_unpaid=_elsewhere(order) <= _elsewhere(stored)
    )
    costs_more = any(getattr(order, name) > getattr(stored, name) for name in _COSTS)
    has_more = bool(after - before) or costs_more
    # Units that the customer has paid for since are new ones, and so are free ones.
    is_whole = (
        not before - after
        and not before - ours
        and order.paid == stored.paid
        and 0 < _total_minor(order) - _total_minor(stored) <= _elsewhere(stored)
    )
    lacks_ours = before != after and not before - after - ours
    if not (is_whole if has_more else lacks_ours):
        return order
    return replace(order, lines=stored.lines, **{name: getattr(stored, name) for name in _COSTS})


def _units_of_refunds(
    connection: sa.Connection, stored: Order, *, with_unpaid: bool
) -> Counter[object]:
    """Return the units that our refunds of an order hold, keyed as in `_units`. `with_unpaid`: also those of
    refunds that we may still pay."""
    by_number = {line.line_no: (line.item_id, line.unit_price) for line in stored.lines}
    ours = Counter[object]()
    for refund in refunds.list_of_order(connection, stored.order_id):
        if refund.holds_money and (with_unpaid or refund.status not in MAY_BE_PAID):
            for part in refund.lines:
                ours[by_number.get(part.line_no)] += 0 if part.is_rest else part.quantity
    return ours


def _units(order: Order) -> Counter[object]:
    found = Counter[object]()
    for line in order.lines:
        found[line.item_id, line.unit_price] += line.quantity
    return found


def _total_minor(order: Order) -> int:
    lines = sum(line.net_minor for line in order.lines)
    return lines - order.discount_minor + order.shipping_minor + order.tax_minor


def _elsewhere(order: Order) -> int:
    return sum(each.refunded_minor for each in order.payments)


def _request_of(part: Row) -> RefundRequest:
    amount = Money(part.amount_minor, part.currency)
    return RefundRequest(
        "", "", part.order_id, part.payment_id, amount, asked_gateway=part.asked_gateway
    )


def _with_elsewhere(
    order: Order, stored: Order, told: Sequence[Row], unsure: Sequence[Row], floor: int | None
) -> Order:
    """Return an order with the external refunds of each payment. Its record includes our refund payments in
    `told`, and perhaps those in `unsure`. `floor`: the least that was refunded externally; None: what is
    stored."""
    before = {each.payment_id: each.refunded_minor for each in stored.payments}
    ours, perhaps = map(refund_payments.sum_by_payment, (told, unsure))

    def elsewhere(payment: Payment) -> Payment:
        name = payment.payment_id
        known, most = before.get(name, 0), payment.refunded_minor - ours[name]
        least = min(known, payment.amount.minor) if floor is None else floor
        stays = max(min(known, most), most - perhaps[name])
        return replace(payment, refunded_minor=max(least, stays))

    return replace(order, payments=tuple(elsewhere(each) for each in order.payments))


def version(connection: sa.Connection, order_id: str) -> int:
    """Return the version of an order: 1 when created, one more with each change; 0 if there is no such
    order."""
    query = sa.select(_orders.c.version).where(_orders.c.order_id == order_id)
    return connection.scalar(query) or 0


def _check_version(stored: int, expected: int | None, order: Order) -> None:
    if expected not in (None, stored):
        if expected == 0:
            raise VersionProblem(f"order {order.order_id} exists already, in version {stored}")
        found = f"has version {stored}" if stored else "does not exist"
        raise VersionProblem(f"order {order.order_id} {found}, not version {expected}")


def _check_refunds_allow(connection: sa.Connection, stored: Order, order: Order) -> None:
    held = orders.held_minor(connection, order.order_id)
    if order.currency != stored.currency:
        if held:
            raise OrderProblem("currency: cannot change, the order has refunds")
        if external_refunds.has_reported(connection, order.order_id):
            raise OrderProblem("currency: cannot change, part of the order was refunded elsewhere")
    if not held:
        return
    if _priced_lines(order) != _priced_lines(stored):
        raise OrderProblem("items: cannot change, the order has refunds")
    for name in _COSTS:
        if getattr(order, name) != getattr(stored, name):
            what = name.removesuffix("_minor")
            raise OrderProblem(f"{what}: cannot change, the order has refunds")
    if order.paid.minor < held:
        raise OrderProblem(
            f"payments: {order.paid} is less than the {Money(held, order.currency)} of its refunds"
        )


def _priced_lines(order: Order) -> Sequence[tuple[object, ...]]:
    """Return the parts of lines on which refunds depend. A shop may correct names, categories and final
    sale."""
    return [
        (line.line_no, line.item_id, line.quantity, line.unit_price, line.discount_minor)
        for line in order.lines
    ]


# --- orders to rows -------------------------------------------------------------------------------


def _values(order: Order, now: datetime) -> dict[str, object]:
    return columns_of(
        _orders,
        order,
        paid_minor=order.paid.minor,
        shipment_count=len(order.shipments),
        updated_at=now,
        seen_at=now,
        look_up_problem=None,
        look_up_problem_at=None,
    )


def _delete_parts(connection: sa.Connection, order_id: str) -> None:
    connection.execute(_lines.delete().where(_lines.c.order_id == order_id))
    connection.execute(_payments.delete().where(_payments.c.order_id == order_id))
    connection.execute(_shipments.delete().where(_shipments.c.order_id == order_id))
    connection.execute(
        _external.delete().where(
            _external.c.order_id == order_id, _external.c.gateway == ORDER_RECORD
        )
    )


def _insert_parts(connection: sa.Connection, order: Order, now: datetime) -> None:
    lines = [
        columns_of(_lines, line, order_id=order.order_id, unit_price_minor=line.unit_price.minor)
        for line in order.lines
    ]
    payments = [
        columns_of(
            _payments,
            payment,
            order_id=order.order_id,
            position=position,
            amount_minor=payment.amount.minor,
        )
        for position, payment in enumerate(order.payments)
    ]
    refunded = [
        {
            "reference": external_refunds.reference_of(
                ORDER_RECORD, order.order_id, payment.payment_id
            ),
            "gateway": ORDER_RECORD,
            "order_id": order.order_id,
            "payment_id": payment.payment_id,
            "amount_minor": payment.refunded_minor,
            "currency": order.currency,
            "seen_at": now,
        }
        for payment in order.payments
        if payment.refunded_minor
    ]
    shipments = [
        columns_of(_shipments, each, order_id=order.order_id, position=position)
        for position, each in enumerate(order.shipments)
    ]
    parts = ((_lines, lines), (_payments, payments), (_external, refunded), (_shipments, shipments))
    for table, rows in parts:
        if rows:
            connection.execute(table.insert(), rows)
