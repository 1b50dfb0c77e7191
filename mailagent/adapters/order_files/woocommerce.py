"""WooCommerce orders, in the format "CSV - one row per item" of its extension Customer/Order/Coupon
Export: every row repeats what belongs to the order as a whole.

docs/orders.md says what becomes of each column."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from mailagent.adapters.order_files.csv_rows import (
    CsvRow,
    ExportedLine,
    decimal_text,
    parse_decimal,
    parse_lines,
    parse_moment,
    parse_quantity,
    rounded_minor,
)
from mailagent.domain.money import Money, parse_currency
from mailagent.domain.refunds.order import OrderProblem, OrderStatus, imported_method

ORDER = GROUP = "order_id"
EMAIL = "billing_email"
# Tells this export from any other file.
MARKS = (ORDER, "order_total", "item_quantity")
NEEDED = (
    *MARKS,
    EMAIL,
    "order_date",
    "status",
    "order_currency",
    "shipping_total",
    "shipping_tax_total",
    "fee_total",
    "fee_tax_total",
    "refunded_total",
    "payment_method",
    "item_name",
    "item_sku",
    "item_subtotal",
    "item_subtotal_tax",
    "item_total",
    "item_total_tax",
)
# What is said of the order as a whole, and must be the same in all its rows.
_SHARED = ("order_total", "refunded_total", "status", EMAIL, "order_currency")

# Of a product that was deleted since.
_NO_SKU = "unknown_product"

_STATUS = {
    "pending": OrderStatus.PENDING,
    "on-hold": OrderStatus.PENDING,
    "failed": OrderStatus.PENDING,
    "checkout-draft": OrderStatus.PENDING,
    "processing": OrderStatus.PENDING,
    "completed": OrderStatus.SHIPPED,
    "refunded": OrderStatus.SHIPPED,
    "cancelled": OrderStatus.CANCELLED,
}
_PAID = frozenset({"processing", "completed", "refunded"})


def build_record(
    rows: Sequence[CsvRow], zone: ZoneInfo | None
) -> tuple[dict[str, Any], datetime | None]:
    """Return the record of one order, without `delivered_at`, and when it was completed if that is known.

    Prices are with their tax. Raises OrderProblem naming the column, also where the rows do not come to
    the order's total: to the cent, but for one that rounding may have moved in each row.
    """
    first = rows[0]
    _check_shared(rows)
    currency = _currency(first)
    items = parse_lines(rows, _item, currency)
    amounts = _amounts(first, items, currency)
    placed = parse_moment(first, "order_date", zone)
    if placed is None:
        raise OrderProblem("order_date: is empty")
    names = (first.text("billing_first_name"), first.text("billing_last_name"))
    record = {
        "order_id": first.text("order_number") or first.text(ORDER),
        "customer": {"email": first.text(EMAIL), "name": " ".join(filter(None, names))},
        "currency": currency,
        "placed_at": placed.isoformat(),
        "status": _STATUS[_status(first)].value,
        "items": [item.record(currency) for item in items],
        "payments": _payments(first, currency),
    }
    return record | amounts, parse_moment(first, "completed_date", zone)


def _check_shared(rows: Sequence[CsvRow]) -> None:
    for row in rows[1:]:
        for column in _SHARED:
            if row.text(column) != rows[0].text(column):
                raise OrderProblem(
                    f"{column}: {row.text(column)!r}, but {rows[0].text(column)!r} on line"
                    f" {rows[0].line_no} of the same order"
                )


def _currency(row: CsvRow) -> str:
    try:
        return parse_currency(row.text("order_currency"))
    except ValueError as problem:
        raise OrderProblem(f"order_currency: {problem}") from None


def _item(row: CsvRow, currency: str) -> ExportedLine:
    """Return one line. WooCommerce knows what all its units cost, before and after discounts; the price
    of one is that divided, rounded up, and the discount makes up the difference."""
    quantity = parse_quantity(row, "item_quantity")
    before = _sum(row, currency, "item_subtotal", "item_subtotal_tax")
    after = _sum(row, currency, "item_total", "item_total_tax")
    # A line may have been made dearer by hand.
    price = -(-max(before, after) // quantity)
    name = " ".join(row.text("item_name").split())
    sku = row.text("item_sku")
    item_id = (sku if sku != _NO_SKU else "") or name
    return ExportedLine(item_id, name, quantity, price, price * quantity - after)


def _sum(row: CsvRow, currency: str, *columns: str) -> int:
    amounts = [parse_decimal(row, column) for column in columns]
    # WooCommerce keeps more decimals than the currency has: added up first, then rounded.
    minor = rounded_minor(sum(amounts, Decimal(0)), currency)
    if minor < 0:
        raise OrderProblem(f"{columns[0]}: is below 0")
    return minor


def _amounts(row: CsvRow, items: Sequence[ExportedLine], currency: str) -> dict[str, str]:
    """Return discount, shipping and tax of the order. Fees go with the carriage, a negative one is a
    discount; the cents that rounding moved are tax or discount."""
    goods = sum(item.net_minor for item in items)
    shipping = _sum(row, currency, "shipping_total", "shipping_tax_total")
    fees = [parse_decimal(row, column) for column in ("fee_total", "fee_tax_total")]
    fee = rounded_minor(sum(fees, Decimal(0)), currency)
    total = _sum(row, currency, "order_total")
    cents = total - goods - shipping - fee
    # One for each line, the carriage and the fees.
    if abs(cents) > len(items) + 2:
        raise OrderProblem(
            f"order_total: {Money(total, currency)}, but items, shipping and fees come to"
            f" {Money(goods + shipping + fee, currency)}"
        )
    return {
        "discount": decimal_text(max(0, -fee) + max(0, -cents), currency),
        "shipping": decimal_text(shipping + max(0, fee), currency),
        "tax": decimal_text(max(0, cents), currency),
    }


def _payments(row: CsvRow, currency: str) -> list[dict[str, str]]:
    total, refunded = _sum(row, currency, "order_total"), _sum(row, currency, "refunded_total")
    paid = total if _status(row) in _PAID or row.text("paid_date") or refunded else 0
    if refunded > paid:
        raise OrderProblem(
            f"refunded_total: {Money(refunded, currency)} of the {Money(paid, currency)} paid"
        )
    if not paid:
        return []
    return [
        {
            "payment_id": row.text("transaction_id") or f"woocommerce {row.text(ORDER)}",
            "method": imported_method(row.text("payment_method")),
            "amount": decimal_text(paid, currency),
            "refunded": decimal_text(refunded, currency),
        }
    ]


def _status(row: CsvRow) -> str:
    status = row.text("status").removeprefix("wc-")
    if status not in _STATUS:
        raise OrderProblem(f"status: {row.text('status')!r} is not known")
    return status
