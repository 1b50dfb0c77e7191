"""WooCommerce's export of orders, one row per item: what each column becomes, and what is refused."""

from __future__ import annotations

import csv
import io
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mailagent.adapters.order_files.export import OrdersFileProblem
from mailagent.adapters.order_files.files import OrdersFile, Reading, parse_orders
from mailagent.adapters.order_files.record import render_order
from mailagent.domain.refunds.order import Order, OrderStatus
from tests.cast import JUERGEN, NOW

BERLIN = ZoneInfo("Europe/Berlin")

COLUMNS = (
    "order_id,order_number,order_date,status,shipping_total,shipping_tax_total,fee_total,fee_tax_total,"
    "tax_total,discount_total,order_total,refunded_total,order_currency,payment_method,shipping_method,"
    "customer_id,billing_first_name,billing_last_name,billing_email,customer_note,item_id,"
    "item_product_id,item_name,item_sku,item_quantity,item_subtotal,item_subtotal_tax,item_total,"
    "item_total_tax,item_refunded,item_refunded_qty,order_notes"
).split(",")
MORE = ["paid_date", "completed_date", "transaction_id"]

# Prices with 19 % tax: two mugs for 9.99 each, less 10 % by a coupon, and a book with 7 %.
ORDER = {
    "order_id": "812",
    "order_number": "",
    "order_date": "2026-11-01 15:00:00",
    "status": "completed",
    "shipping_total": "4.1176470588235",
    "shipping_tax_total": "0.78",
    "fee_total": "0.00",
    "fee_tax_total": "0.00",
    "tax_total": "4.94",
    "discount_total": "1.68",
    "order_total": "42.88",
    "refunded_total": "0.00",
    "order_currency": "EUR",
    "payment_method": "stripe",
    "billing_first_name": "Jürgen",
    "billing_last_name": "Beispiel",
    "billing_email": JUERGEN,
}
MUGS = {
    "item_name": "Mug",
    "item_sku": "MUG",
    "item_quantity": "2",
    "item_subtotal": "16.79",
    "item_subtotal_tax": "3.19",
    "item_total": "15.11",
    "item_total_tax": "2.87",
}
BOOK = {
    "item_name": "Book",
    "item_sku": "unknown_product",
    "item_quantity": "1",
    "item_subtotal": "18.69",
    "item_subtotal_tax": "1.31",
    "item_total": "18.69",
    "item_total_tax": "1.31",
}


def export(*rows: dict[str, str], columns: list[str] = COLUMNS) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def read(data: bytes, zone: ZoneInfo | None = BERLIN, **reading: Any) -> OrdersFile:
    return parse_orders(data, Reading(NOW, zone=zone, **reading))


def only(changes: dict[str, str], *items: dict[str, str], **reading: Any) -> Order:
    rows = [ORDER | changes | item for item in (items or (MUGS, BOOK))]
    ((_, order),) = read(export(*rows, columns=COLUMNS + MORE), **reading).orders
    return order


def test_an_order_of_two_rows_is_read_with_prices_that_have_their_tax() -> None:
    file = read(export(ORDER | MUGS, ORDER | BOOK))
    ((line_no, order),) = file.orders
    assert line_no == 2
    assert render_order(order) == {
        "order_id": "812",
        "customer": {"email": JUERGEN, "name": "Jürgen Beispiel"},
        "currency": "EUR",
        "placed_at": "2026-11-01T14:00:00Z",
        "delivered_at": None,
        "status": "shipped",
        "items": [
            {
                "item_id": "MUG",
                "name": "Mug",
                "quantity": 2,
                "unit_price": "9.99",
                "discount": "2.00",
            },
            {"item_id": "Book", "name": "Book", "quantity": 1, "unit_price": "20.00"},
        ],
        "payments": [{"payment_id": "woocommerce 812", "method": "card", "amount": "42.88"}],
        "shipping": "4.90",
    }


@pytest.mark.parametrize(
    ("changes", "discount", "shipping", "tax"),
    [
        pytest.param({"order_total": "42.92"}, 0, 490, 4, id="four cents more"),
        pytest.param({"order_total": "42.84"}, 4, 490, 0, id="four cents less"),
        pytest.param(
            {"fee_total": "1.00", "fee_tax_total": "0.19", "order_total": "44.07"},
            0,
            609,
            0,
            id="a fee",
        ),
        pytest.param({"fee_total": "-5.00", "order_total": "37.88"}, 500, 490, 0, id="a rebate"),
    ],
)
def test_fees_and_rounded_cents_are_kept(
    changes: dict[str, str], discount: int, shipping: int, tax: int
) -> None:
    order = only(changes)
    assert (order.discount_minor, order.shipping_minor, order.tax_minor) == (
        discount,
        shipping,
        tax,
    )


def test_a_price_that_does_not_divide_is_rounded_up_and_made_up_for() -> None:
    three = MUGS | {"item_quantity": "3", "item_subtotal": "10", "item_total": "10"}
    plain = three | {"item_subtotal_tax": "", "item_total_tax": ""}
    free = {"shipping_total": "", "shipping_tax_total": "", "order_total": "10.00"}
    (line,) = only(free, plain).lines
    assert (line.unit_price.minor, line.discount_minor, line.net_minor) == (334, 2, 1000)


@pytest.mark.parametrize(
    ("changes", "status", "paid", "refunded"),
    [
        ({"status": "processing"}, OrderStatus.PENDING, 42_88, 0),
        ({"status": "processing", "payment_method": "cod"}, OrderStatus.PENDING, 0, 0),
        (
            {"status": "wc-processing", "payment_method": "cod", "paid_date": "2026-11-01"},
            OrderStatus.PENDING,
            42_88,
            0,
        ),
        ({"status": "completed", "payment_method": "cod"}, OrderStatus.SHIPPED, 42_88, 0),
        ({"status": "wc-completed"}, OrderStatus.SHIPPED, 42_88, 0),
        ({"status": "completed", "refunded_total": "10"}, OrderStatus.SHIPPED, 42_88, 10_00),
        ({"status": "refunded", "refunded_total": "42.88"}, OrderStatus.SHIPPED, 42_88, 42_88),
        ({"status": "pending"}, OrderStatus.PENDING, 0, 0),
        ({"status": "on-hold"}, OrderStatus.PENDING, 0, 0),
        ({"status": "failed"}, OrderStatus.PENDING, 0, 0),
        ({"status": "cancelled"}, OrderStatus.CANCELLED, 0, 0),
        ({"status": "cancelled", "paid_date": "2026-11-01"}, OrderStatus.CANCELLED, 42_88, 0),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else None,
)
def test_the_status_says_what_was_sent_and_paid(
    changes: dict[str, str], status: OrderStatus, paid: int, refunded: int
) -> None:
    order = only(changes)
    assert (order.status, order.paid.minor) == (status, paid)
    assert sum(payment.refunded_minor for payment in order.payments) == refunded


def test_columns_that_a_shop_may_add_are_used() -> None:
    added = {"transaction_id": "pi_812", "completed_date": "2026-11-03 10:00"}
    order = only(added | {"order_number": "W-812"}, delivered_after_days=3)
    assert (order.order_id, order.payments[0].payment_id) == ("W-812", "pi_812")
    assert order.delivered_at is not None
    assert order.delivered_at.isoformat() == "2026-11-06T09:00:00+00:00"


def test_what_was_sent_without_a_date_is_counted_where_that_was_asked_for() -> None:
    book = ORDER | BOOK | {"order_total": "24.90"}
    rows = (book, book | {"order_id": "9"})
    late = rows[1] | {"status": "processing"}
    assert read(export(*rows), delivered_after_days=3).undated == 2
    assert read(export(book, late), delivered_after_days=0).undated == 1
    assert read(export(*rows)).undated == 0


def test_an_order_without_a_mail_address_is_left_out() -> None:
    nobody = ORDER | {"order_id": "813", "billing_email": ""} | BOOK
    file = read(export(ORDER | MUGS, ORDER | BOOK, nobody))
    assert (len(file.orders), file.left_out) == (1, (4,))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"order_total": "42.93"},
            "line 2: order_total: 42.93 EUR, but items, shipping and fees come to 42.88 EUR",
        ),
        ({"order_total": "42.83"}, "order_total: 42.83 EUR"),
        ({"order_total": "free"}, "order_total: 'free' is not an amount"),
        ({"refunded_total": "42.89"}, "refunded_total: 42.89 EUR of the 42.88 EUR paid"),
        ({"order_currency": ""}, "order_currency: ''"),
        ({"status": "throttled"}, "status: 'throttled' is not known"),
        ({"order_date": "11/01/2026 3:00 pm"}, "order_date: '11/01/2026 3:00 pm' is not a time"),
        ({"order_date": ""}, "order_date: is empty"),
        ({"shipping_total": "-4.12"}, "shipping_total: is below 0"),
        ({"billing_email": "nobody"}, "customer.email: 'nobody'"),
        ({"item_quantity": "0"}, "line 2: item_quantity: '0'"),
        ({"item_total": "-5"}, "item_total: is below 0"),
    ],
)
def test_nonsense_is_refused_by_line_and_column(changes: dict[str, str], complaint: str) -> None:
    rows = [ORDER | MUGS | changes, ORDER | BOOK | changes]
    with pytest.raises(OrdersFileProblem, match=complaint):
        read(export(*rows))


def test_rows_that_disagree_about_their_order_are_refused() -> None:
    with pytest.raises(OrdersFileProblem, match=r"order_total: '1.00', but '42.88' on line 2"):
        read(export(ORDER | MUGS, ORDER | BOOK | {"order_total": "1.00"}))


def test_a_time_needs_the_zone_of_the_shop() -> None:
    with pytest.raises(OrdersFileProblem, match="name the shop's own with --timezone"):
        read(export(ORDER | MUGS, ORDER | BOOK), zone=None)
