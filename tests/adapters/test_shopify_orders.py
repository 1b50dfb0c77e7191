"""Shopify's export of orders: what each column becomes, and what is refused with its line."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailagent.adapters.order_files.export import OrdersFileProblem
from mailagent.adapters.order_files.files import OrdersFile, Reading, parse_orders
from mailagent.adapters.order_files.record import render_order
from mailagent.domain.refunds.order import Order, OrderStatus
from tests.cast import ADA, NOW

# In Shopify's order; what is not used here is there to be passed over.
COLUMNS = (
    "Name,Email,Financial Status,Paid at,Fulfillment Status,Fulfilled at,Accepts Marketing,Currency,"
    "Subtotal,Shipping,Taxes,Total,Discount Code,Discount Amount,Shipping Method,Created at,"
    "Lineitem quantity,Lineitem name,Lineitem price,Lineitem compare at price,Lineitem sku,"
    "Lineitem requires shipping,Lineitem taxable,Lineitem fulfillment status,Billing Name,Notes,"
    "Cancelled at,Payment Method,Payment Reference,Refunded Amount,Vendor,Outstanding Balance,Id,"
    "Lineitem discount,Tax 1 Name,Tax 1 Value,Duties,Payment ID,Payment References"
).split(",")

FIRST = {
    "Name": "#1001",
    "Email": ADA,
    "Financial Status": "paid",
    "Paid at": "2026-11-01 09:01:00 -0500",
    "Fulfillment Status": "fulfilled",
    "Fulfilled at": "2026-11-03 08:00:00 -0500",
    "Currency": "USD",
    "Subtotal": "63.00",
    "Shipping": "5.00",
    "Taxes": "4.76",
    "Total": "72.76",
    "Discount Code": "WELCOME",
    "Discount Amount": "7.00",
    "Created at": "2026-11-01 09:00:00 -0500",
    "Lineitem quantity": "2",
    "Lineitem name": "Mug - Blue",
    "Lineitem price": "10.00",
    "Lineitem sku": "M-B",
    "Lineitem discount": "0.00",
    "Billing Name": "Ada Example",
    "Payment Method": "Shopify Payments",
    "Payment Reference": "c1.1",
    "Refunded Amount": "0.00",
    "Outstanding Balance": "0.00",
    "Payment References": "c1.1",
}
SECOND = {
    "Name": "#1001",
    "Email": ADA,
    "Lineitem quantity": "1",
    "Lineitem name": "Kettle",
    "Lineitem price": "50.00",
    "Lineitem sku": "",
    "Lineitem discount": "0.00",
}


def export(*rows: dict[str, str], columns: list[str] = COLUMNS) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def read(data: bytes, **reading: Any) -> OrdersFile:
    return parse_orders(data, Reading(NOW, **reading))


def only(*rows: dict[str, str], **reading: Any) -> Order:
    ((_, order),) = read(export(*rows), **reading).orders
    return order


def test_an_order_of_two_rows_is_read() -> None:
    assert render_order(only(FIRST, SECOND)) == {
        "order_id": "#1001",
        "customer": {"email": ADA, "name": "Ada Example"},
        "currency": "USD",
        "placed_at": "2026-11-01T14:00:00Z",
        "delivered_at": None,
        "status": "shipped",
        "items": [
            {"item_id": "M-B", "name": "Mug - Blue", "quantity": 2, "unit_price": "10.00"},
            {"item_id": "Kettle", "name": "Kettle", "quantity": 1, "unit_price": "50.00"},
        ],
        "payments": [{"payment_id": "c1.1", "method": "card", "amount": "72.76"}],
        "discount": "7.00",
        "shipping": "5.00",
        "tax": "4.76",
    }


@pytest.mark.parametrize(
    ("changes", "second", "discount", "shipping", "tax"),
    [
        pytest.param({"Total": "68.00"}, {}, 700, 500, 0, id="taxes included"),
        pytest.param({"Total": "73.76", "Duties": "1.00"}, {}, 700, 500, 576, id="duties on top"),
        pytest.param(
            {"Total": "69.00", "Duties": "1.00"}, {}, 700, 500, 100, id="taxes included, duties not"
        ),
        pytest.param(
            {"Subtotal": "70.00", "Shipping": "0", "Total": "74.76", "Discount Amount": "5.00"},
            {},
            0,
            0,
            476,
            id="a code for the carriage",
        ),
        pytest.param({}, {"Lineitem discount": "7.00"}, 0, 500, 476, id="off one line"),
        pytest.param(
            {}, {"Lineitem discount": "3.00"}, 400, 500, 476, id="off a line and the order"
        ),
    ],
)
def test_amounts_are_told_apart_by_what_they_add_up_to(
    changes: dict[str, str], second: dict[str, str], discount: int, shipping: int, tax: int
) -> None:
    order = only(FIRST | changes, SECOND | second)
    assert (order.discount_minor, order.shipping_minor, order.tax_minor) == (
        discount,
        shipping,
        tax,
    )


def test_variants_that_share_an_sku_are_items_of_their_own() -> None:
    small = SECOND | {"Lineitem sku": "M-B", "Lineitem name": "Mug - small"}
    assert [each.item_id for each in only(FIRST, small).lines] == ["M-B", "M-B (line 2)"]


def free(**changes: str) -> dict[str, str]:
    """One mug for nothing, given away by a code."""
    amounts = {"Subtotal": "0.00", "Shipping": "0.00", "Taxes": "0.00", "Total": "0.00"}
    return FIRST | amounts | {"Lineitem quantity": "1", "Discount Amount": "10.00"} | changes


def test_a_free_order_has_no_payment() -> None:
    order = only(free())
    assert (order.payments, order.discount_minor) == ((), 10_00)


@pytest.mark.parametrize(
    ("changes", "paid", "refunded"),
    [
        ({"Financial Status": "paid"}, 72_76, 0),
        ({"Financial Status": "partially_refunded", "Refunded Amount": "20.00"}, 72_76, 20_00),
        ({"Financial Status": "refunded", "Refunded Amount": "72.76"}, 72_76, 72_76),
        ({"Financial Status": "partially_paid", "Outstanding Balance": "22.76"}, 50_00, 0),
        ({"Financial Status": "pending"}, 0, 0),
        ({"Financial Status": "authorized"}, 0, 0),
        ({"Financial Status": "voided"}, 0, 0),
    ],
    ids=lambda value: str(value.get("Financial Status")) if isinstance(value, dict) else None,
)
def test_the_payment_is_what_was_captured(
    changes: dict[str, str], paid: int, refunded: int
) -> None:
    order = only(FIRST | changes, SECOND)
    assert order.paid.minor == paid
    assert sum(payment.refunded_minor for payment in order.payments) == refunded


def test_a_gift_card_and_a_card_are_one_payment_under_both_references() -> None:
    both = {"Payment Method": "Gift Card + Shopify Payments", "Payment References": "g1 + c1.1"}
    (payment,) = only(FIRST | both, SECOND).payments
    assert (payment.payment_id, payment.method) == ("g1 + c1.1", "gift_card + card")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Fulfillment Status": "unfulfilled"}, OrderStatus.PENDING),
        ({"Fulfillment Status": "partial"}, OrderStatus.PENDING),
        ({"Fulfillment Status": ""}, OrderStatus.PENDING),
        ({"Fulfillment Status": "fulfilled"}, OrderStatus.SHIPPED),
        ({"Cancelled at": "2026-11-02 09:00:00 -0500"}, OrderStatus.CANCELLED),
    ],
    ids=["unfulfilled", "partial", "none", "fulfilled", "cancelled"],
)
def test_the_status_is_the_fulfilment(changes: dict[str, str], status: OrderStatus) -> None:
    assert only(FIRST | changes, SECOND).status is status


@pytest.mark.parametrize(
    ("days", "delivered"), [(16, True), (17, True), (18, False), (None, False)]
)
def test_what_was_sent_is_delivered_after_as_many_days_as_are_given(
    days: int | None, delivered: bool
) -> None:
    sent = FIRST | {"Fulfilled at": "2026-11-03 07:00:00 -0500"}  # 17 days before noon in UTC
    order = only(sent, SECOND, delivered_after_days=days)
    assert (order.status is OrderStatus.DELIVERED) is delivered
    assert (order.delivered_at is not None) is delivered


def test_nothing_is_delivered_that_was_not_sent() -> None:
    pending = FIRST | {"Fulfillment Status": "unfulfilled", "Fulfilled at": ""}
    assert only(pending, SECOND, delivered_after_days=0).status is OrderStatus.PENDING


@pytest.mark.parametrize(
    ("currency", "price", "total", "minor"),
    [
        ("JPY", "1200", "1200", 1200),
        ("JPY", "1200.00", "1200.0", 1200),
        ("KWD", "1.250", "1.25", 1250),
        ("USD", "12.5", "12.50", 1250),
    ],
)
def test_decimals_are_the_currencys_own(currency: str, price: str, total: str, minor: int) -> None:
    amounts = {"Subtotal": total, "Total": total, "Lineitem price": price, "Discount Amount": "0"}
    order = only(free(Currency=currency, **amounts))
    assert (order.paid.minor, order.lines[0].unit_price.minor) == (minor, minor)


def test_an_order_without_a_mail_address_is_left_out_and_told() -> None:
    file = read(export(FIRST | {"Email": ""}, SECOND, free(Name="#1002")))
    assert [order.order_id for _, order in file.orders] == ["#1002"]
    assert file.left_out == (2,)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data, id="as it is"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="byte order mark"),
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="carriage returns"),
    ],
)
def test_it_is_recognised_and_lines_are_counted_as_an_editor_does(change: Any) -> None:
    noted = FIRST | {"Notes": 'Please\nring twice,\n"thanks"'}
    data = change(export(noted, SECOND, free(Name="#1002")))
    # The header, then a row over three lines, then the second row of the first order.
    assert [line_no for line_no, _ in read(data).orders] == [2, 6]


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        (
            {"Total": "72.75"},
            {},
            r"line 2: Total: 72.75 USD, but subtotal and shipping come to 68.00",
        ),
        ({"Subtotal": "62.99"}, {}, "line 2: Subtotal: 62.99 USD, but the lines come to 70.00 USD"),
        ({"Subtotal": "70.01"}, {}, "Subtotal: 70.01 USD"),
        ({}, {"Lineitem discount": "50.01"}, "Lineitem discount: 50.01 USD off 50.00 USD"),
        ({}, {"Lineitem quantity": "0"}, "line 3: Lineitem quantity: '0' is not a whole number"),
        ({}, {"Lineitem quantity": "1.5"}, "Lineitem quantity: '1.5'"),
        ({}, {"Lineitem price": "50,00"}, "Lineitem price: '50,00' is not an amount"),
        ({}, {"Lineitem price": "-1.00"}, "Lineitem price: is below 0"),
        ({}, {"Lineitem price": "49.999"}, "Lineitem price: '49.999' is not an amount in USD"),
        ({"Currency": "JPY"}, {}, "not an amount in JPY"),
        ({"Currency": "dollars"}, {}, "line 2: Currency: 'dollars'"),
        ({"Financial Status": "bartered"}, {}, "Financial Status: 'bartered' is not known"),
        ({"Fulfillment Status": "lost"}, {}, "Fulfillment Status: 'lost' is not known"),
        ({"Refunded Amount": "72.77"}, {}, "Refunded Amount: 72.77 USD of the 72.76 USD paid"),
        (
            {"Financial Status": "partially_paid", "Outstanding Balance": ""},
            {},
            "Outstanding Balance: is missing",
        ),
        (
            {"Financial Status": "partially_paid", "Outstanding Balance": "72.77"},
            {},
            "Outstanding Balance: is above",
        ),
        ({"Created at": ""}, {}, "Created at: is empty"),
        ({"Created at": "0001-01-01 00:00:00 +1400"}, {}, "Created at: .* years 1970 to 2999"),
        ({"Fulfilled at": "9999-12-31 23:59:59 +0000"}, {}, "Fulfilled at: .* years 1970 to 2999"),
        ({"Created at": "1 November"}, {}, "Created at: '1 November' is not a time"),
        ({"Created at": "2026-11-01 09:00:00"}, {}, "Created at: .* has no time zone"),
        ({"Email": "nobody"}, {}, "customer.email: 'nobody'"),
        ({}, {"Total": "50.00"}, "Name: '#1001' comes again on line 3"),
        ({"Name": ""}, {}, "line 2: Name: is empty"),
    ],
)
def test_nonsense_is_refused_by_line_and_column(
    first: dict[str, str], second: dict[str, str], complaint: str
) -> None:
    with pytest.raises(OrdersFileProblem, match=complaint):
        only(FIRST | first, SECOND | second)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (export(FIRST, columns=COLUMNS[:8]), "line 1: is neither a JSON object nor the header"),
        (export(FIRST, columns=COLUMNS[:-10]), "line 1: the column 'Refunded Amount' is missing"),
        (export(FIRST, columns=[*COLUMNS, "Total"]), "line 1: the column 'Total' stands twice"),
        (export(FIRST, SECOND) + b"#1002,more\n", "line 4: has 2 cells, but the header has 39"),
        (export(FIRST, SECOND) + b'#1002,"never', "line 4: is not CSV"),
        (export(FIRST, SECOND) + b"#1002,\xff\n", "line 4: is not UTF-8"),
        (export(FIRST, SECOND, free(), SECOND), "line 2: Name: '#1001' comes again on line 4"),
        (
            export(FIRST, SECOND, free(Name="#2"), FIRST, SECOND),
            "line 5: order #1001 stands on line 2 already",
        ),
        (export(FIRST, *[SECOND] * 1_000), "line 1002: an order has at most 1000 rows"),
    ],
)
def test_a_broken_file_is_refused_by_line(data: bytes, complaint: str) -> None:
    with pytest.raises(OrdersFileProblem, match=complaint):
        read(data)


@settings(max_examples=150)
@given(
    position=st.integers(0, 1_200),
    length=st.integers(0, 40),
    text=st.one_of(
        st.binary(max_size=8),
        st.sampled_from(
            [b'"', b",", b"\n", b"\r", b"\0", b"-", b"9" * 30, b"1e9", b"NaN", b"\xef"]
        ),
    ),
)
def test_whatever_happened_to_a_file_it_is_read_or_refused(
    position: int, length: int, text: bytes
) -> None:
    data = export(FIRST, SECOND)
    spoilt = data[:position] + text + data[position + length :]
    with suppress(OrdersFileProblem):
        read(spoilt, delivered_after_days=365)


def test_times_are_in_utc() -> None:
    assert only(FIRST, SECOND).placed_at == datetime(2026, 11, 1, 14, tzinfo=UTC)
