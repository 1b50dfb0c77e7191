"""Shopify's export of orders (admin, Orders, Export, CSV): a row for each line of an order, of which
only the first has what belongs to the order as a whole.

docs/orders.md says what becomes of each column."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from mailagent.adapters.order_files.csv_rows import (
    CsvRow,
    ExportedLine,
    decimal_text,
    parse_lines,
    parse_minor,
    parse_moment,
    parse_quantity,
)
from mailagent.domain.money import Money, parse_currency
from mailagent.domain.refunds.order import OrderProblem, OrderStatus, imported_method

NAME = GROUP = "Name"
EMAIL = "Email"
# Tells this export from any other file.
MARKS = (NAME, "Financial Status", "Lineitem quantity")
NEEDED = (
    *MARKS,
    EMAIL,
    "Fulfillment Status",
    "Currency",
    "Subtotal",
    "Shipping",
    "Taxes",
    "Total",
    "Discount Amount",
    "Created at",
    "Cancelled at",
    "Lineitem name",
    "Lineitem price",
    "Lineitem sku",
    "Payment Method",
    "Refunded Amount",
)

# What was captured of an order by its financial status: all, what is not outstanding, nothing.
_PAID = frozenset({"paid", "partially_refunded", "refunded"})
_PARTLY_PAID = "partially_paid"
_UNPAID = frozenset({"pending", "authorized", "voided", "expired", "unpaid"})

_SHIPPED = "fulfilled"
# A part of it still has to be sent; "restocked" lies in the shop again.
_NOT_SHIPPED = frozenset({"", "unfulfilled", "partial", "restocked"})


def build_record(
    rows: Sequence[CsvRow], zone: ZoneInfo | None
) -> tuple[dict[str, Any], datetime | None]:
    """Return the record of one order, without `delivered_at`, and when it was sent if that is known.

    Raises OrderProblem naming the column. Amounts must add up: the lines less their discounts to the
    subtotal, and that with shipping, and taxes where they come on top, to the total.
    """
    first = rows[0]
    _check_one_order(rows)
    currency = _currency(first)
    items = parse_lines(rows, _item, currency)
    amounts = _amounts(first, items, currency)
    created = parse_moment(first, "Created at", zone)
    if created is None:
        raise OrderProblem("Created at: is empty")
    record = {
        "order_id": first.text(NAME),
        "customer": {"email": first.text(EMAIL), "name": first.text("Billing Name")},
        "currency": currency,
        "placed_at": created.isoformat(),
        "status": _status(first).value,
        "items": [item.record(currency) for item in items],
        "payments": _payments(first, currency),
    }
    return record | amounts, parse_moment(first, "Fulfilled at", zone)


def _check_one_order(rows: Sequence[CsvRow]) -> None:
    """Refuse a second order of the same name: a row that goes on with one says nothing of its own."""
    for row in rows[1:]:
        if row.text("Financial Status") or row.text("Total"):
            raise OrderProblem(f"Name: {row.text(NAME)!r} comes again on line {row.line_no}")


def _currency(row: CsvRow) -> str:
    try:
        return parse_currency(row.text("Currency"))
    except ValueError as problem:
        raise OrderProblem(f"Currency: {problem}") from None


def _item(row: CsvRow, currency: str) -> ExportedLine:
    name = " ".join(row.text("Lineitem name").split())
    quantity = parse_quantity(row, "Lineitem quantity")
    price = parse_minor(row, "Lineitem price", currency)
    discount = parse_minor(row, "Lineitem discount", currency)
    if discount > quantity * price:
        raise OrderProblem(
            f"Lineitem discount: {_told(discount, currency)} off {_told(quantity * price, currency)}"
        )
    # Products without an SKU are told apart by their names.
    return ExportedLine(row.text("Lineitem sku") or name, name, quantity, price, discount)


def _amounts(row: CsvRow, items: Sequence[ExportedLine], currency: str) -> dict[str, str]:
    """Return discount, shipping and tax of the order.

    The discount is what the lines cost above the subtotal: "Discount Amount" may also have been given
    on the carriage, and counts what the lines say themselves.
    """
    minor = {
        column: parse_minor(row, column, currency)
        for column in ("Subtotal", "Shipping", "Taxes", "Duties", "Total", "Discount Amount")
    }
    goods = sum(item.net_minor for item in items)
    discount = goods - minor["Subtotal"]
    if not 0 <= discount <= minor["Discount Amount"]:
        raise OrderProblem(
            f"Subtotal: {_told(minor['Subtotal'], currency)}, but the lines come to"
            f" {_told(goods, currency)} and the discount is {_told(minor['Discount Amount'], currency)}"
        )
    net, on_top = minor["Subtotal"] + minor["Shipping"], minor["Taxes"] + minor["Duties"]
    if minor["Total"] not in (net, net + minor["Duties"], net + on_top):
        raise OrderProblem(
            f"Total: {_told(minor['Total'], currency)}, but subtotal and shipping come to"
            f" {_told(net, currency)}, and with taxes to {_told(net + on_top, currency)}"
        )
    return {
        "discount": decimal_text(discount, currency),
        "shipping": decimal_text(minor["Shipping"], currency),
        "tax": decimal_text(minor["Total"] - net, currency),
    }


def _payments(row: CsvRow, currency: str) -> list[dict[str, str]]:
    """Return what was paid as one payment, also where a gift card and a card paid together: the export
    has no amount of each."""
    total = parse_minor(row, "Total", currency)
    refunded = parse_minor(row, "Refunded Amount", currency)
    paid = _paid(row, total, currency)
    if refunded > paid:
        raise OrderProblem(
            f"Refunded Amount: {_told(refunded, currency)} of the {_told(paid, currency)} paid"
        )
    if not paid:
        return []
    reference = row.text("Payment References") or row.text("Payment Reference")
    return [
        {
            "payment_id": reference or row.text("Payment ID") or f"shopify {row.text(NAME)}",
            "method": imported_method(row.text("Payment Method")),
            "amount": decimal_text(paid, currency),
            "refunded": decimal_text(refunded, currency),
        }
    ]


def _paid(row: CsvRow, total: int, currency: str) -> int:
    status = row.text("Financial Status")
    if status in _PAID:
        return total
    if status in _UNPAID:
        return 0
    if status != _PARTLY_PAID:
        raise OrderProblem(f"Financial Status: {status!r} is not known")
    if not row.text("Outstanding Balance"):
        raise OrderProblem("Outstanding Balance: is missing, although it is partially_paid")
    outstanding = parse_minor(row, "Outstanding Balance", currency)
    if outstanding > total:
        raise OrderProblem(f"Outstanding Balance: is above the total of {_told(total, currency)}")
    return total - outstanding


def _status(row: CsvRow) -> OrderStatus:
    if row.text("Cancelled at"):
        return OrderStatus.CANCELLED
    status = row.text("Fulfillment Status")
    if status == _SHIPPED:
        return OrderStatus.SHIPPED
    if status in _NOT_SHIPPED:
        return OrderStatus.PENDING
    raise OrderProblem(f"Fulfillment Status: {status!r} is not known")


def _told(minor: int, currency: str) -> str:
    return str(Money(minor, currency))
