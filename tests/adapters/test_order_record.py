"""Orders as records: what is refused, and where the message says it is."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from mailagent.adapters.order_files.export import OrdersFileProblem
from mailagent.adapters.order_files.files import Reading, parse_orders
from mailagent.adapters.order_files.record import parse_order, render_order
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus
from tests.cast import NOW, order_record
from tests.databases import ROOT
from tests.domain.purchases import purchases

ITEM = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
PAYMENT = {"payment_id": "p", "method": "card", "amount": "49.99"}


def test_a_whole_order_is_read() -> None:
    order = parse_order(order_record(customer={"email": " Ada@Example.COM ", "name": "Ada"}))
    assert order.customer_email == "ada@example.com"
    assert order.status is OrderStatus.DELIVERED
    assert str(order.paid) == "49.99 USD"
    assert order.placed_at.utcoffset() is not None


def test_the_same_item_may_stand_on_two_lines() -> None:
    order = parse_order(order_record(items=[ITEM, ITEM]))
    assert [line.line_no for line in order.lines] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"order_id": ""}, "order_id: "),
        ({"order_id": 7}, "order_id: "),
        ({"currency": "usd"}, "currency: 'usd'"),
        ({"currency": "ZZZ"}, "currency: ZZZ is no currency of ISO 4217"),
        ({"status": "lost"}, "status: 'lost' is refused; it should be 'pending', 'shipped', "),
        ({"placed_at": "yesterday"}, "placed_at: "),
        ({"placed_at": "2026-11-01T09:00:00"}, "no time zone"),
        ({"delivered_at": "2020-01-01T00:00:00Z"}, "lies before placed_at"),
        ({"delivered_at": None}, "delivered_at: missing, although"),
        ({"items": []}, "items: an order needs at least one"),
        ({"items": {}}, "items: {} is refused; it should be a valid list"),
        ({"items": [ITEM | {"quantity": 1.0}]}, r"items\[1\].quantity: 1.0 is refused"),
        ({"items": [ITEM | {"quantity": "1"}]}, r"items\[1\].quantity: '1' is refused"),
        ({"items": [ITEM | {"quantity": float("nan")}]}, r"items\[1\].quantity: nan is refused"),
        ({"items": [ITEM | {"quantity": 10**30}]}, r"items\[1\].quantity: 10+ is refused"),
        ({"items": [ITEM | {"quantity": 10**6000}]}, r"items\[1\].quantity: what stands there is"),
        ({"items": [ITEM | {"unit_price": "9" * 13}]}, r"items\[1\].unit_price: '9+' is not an"),
        ({"items": [7]}, r"items\[1\]: is not an object with keys: 7"),
        ({"items": [ITEM, ITEM | {"quantity": 0}]}, r"items\[2\].quantity: 0"),
        ({"items": [ITEM | {"quantity": True}]}, r"items\[1\].quantity: True"),
        ({"items": [ITEM | {"unit_price": 49.99}]}, r"items\[1\].unit_price: 49.99 is not"),
        ({"items": [ITEM | {"unit_price": "49.999"}]}, "more decimals than USD"),
        ({"items": [ITEM | {"colour": "red"}]}, r"items\[1\]: unknown key 'colour'"),
        ({"payments": [PAYMENT, PAYMENT]}, "payment_id stands twice"),
        ({"payments": [PAYMENT | {"amount": "-1"}]}, r"payments\[1\].amount: '-1'"),
        ({"customer": {"email": "nobody", "name": "N"}}, "customer.email: 'nobody'"),
        ({"customer": {"name": "N"}}, "customer: 'email' is missing"),
        ({"gift_wrap": True}, "unknown key 'gift_wrap'"),
        ({"order_id": "W1\n"}, "control characters"),
        ({"order_id": "W1\x7f"}, "order_id: .* control characters"),
        (
            {"customer": {"email": "ada@example.com", "name": "A\ud800"}},
            "customer.name: .* control",
        ),
        ({"customer": {"email": "ada@example.com", "name": 0}}, "customer.name: 0 is not a text"),
        ({"items": [ITEM | {"name": "Kettle\x85"}]}, r"items\[1\].name: .* control characters"),
        ({"placed_at": "0001-01-01T00:00:00+14:00"}, "placed_at: .* years 1970 to 2999"),
        ({"placed_at": "1969-12-31T23:59:59Z"}, "placed_at: .* years 1970 to 2999"),
        ({"delivered_at": "9999-12-31T23:59:59-14:00"}, "delivered_at: .* years 1970 to 2999"),
        ({"delivered_at": "3000-01-01T00:00:00Z"}, "delivered_at: .* years 1970 to 2999"),
        ({"delivered_at": 20261101}, "delivered_at: 20261101 is not a time"),
    ],
)
def test_nonsense_is_refused_by_name(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OrderProblem, match=complaint):
        parse_order(order_record(**changes))


def test_several_problems_are_told_at_once() -> None:
    with pytest.raises(OrderProblem) as raised:
        parse_order(order_record(order_id="", gift=1, items=[ITEM | {"name": 7, "quantity": 0}]))
    for problem in ("order_id: '' is", "items[1].name: 7 is", "items[1].quantity: 0 is", "'gift'"):
        assert problem in str(raised.value)


def test_without_a_currency_no_amount_is_complained_about() -> None:
    with pytest.raises(OrderProblem, match=r"^currency: ZZZ is no currency of ISO 4217[^:]*$"):
        parse_order(order_record(currency="ZZZ", shipping="1.234"))


def test_the_first_and_the_last_year_are_taken() -> None:
    order = parse_order(
        order_record(
            placed_at="1970-01-01T00:00:00+14:00", delivered_at="2999-12-31T23:59:59-14:00"
        )
    )
    assert order.delivered_at is not None
    assert (order.placed_at.year, order.delivered_at.year) == (1969, 3000)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"items": [ITEM | {"quantity": 1_000_000, "unit_price": "10000000000.01"}]},
            "items: come",
        ),
        (
            {
                "payments": [
                    PAYMENT | {"payment_id": f"{n}", "amount": "9" * 12} for n in range(10_001)
                ]
            },
            "payments: come to more than 10000000000000000.00 USD in all",
        ),
    ],
)
def test_more_than_a_database_can_add_up_is_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(OrderProblem, match=complaint):
        parse_order(order_record(**changes))


def test_the_most_that_an_order_may_come_to_is_taken() -> None:
    most = ITEM | {"quantity": 1_000_000, "unit_price": "10000000000.00"}
    assert parse_order(order_record(items=[most])).lines[0].quantity == 1_000_000


@pytest.mark.parametrize("record", [None, [], "W1", 7, {}])
def test_what_is_no_order_is_refused(record: object) -> None:
    with pytest.raises(OrderProblem):
        parse_order(record)


# --- what orders may have besides ----------------------------------------------------------------

WHOLE = order_record(
    items=[
        ITEM
        | {"quantity": 2, "discount": "9.98", "category": "kitchen", "final_sale": True}
        | {"item_id": "K2"},
        ITEM | {"discount": None, "category": None, "final_sale": False},
    ],
    payments=[
        PAYMENT | {"amount": "100.00", "refunded": "20.00"},
        PAYMENT | {"payment_id": "q", "method": "gift_card", "amount": "49.93"},
        PAYMENT | {"payment_id": "r", "charged_back_at": "2026-11-10T09:00:00+01:00"},
    ],
    discount="10.00",
    shipping="5.00",
    tax="8.95",
)


def test_discounts_carriage_tax_and_what_was_given_back_are_read() -> None:
    order = parse_order(WHOLE)
    assert (order.discount_minor, order.shipping_minor, order.tax_minor) == (10_00, 5_00, 8_95)
    first, second = order.lines
    assert (first.net_minor, first.category, first.final_sale) == (90_00, "kitchen", True)
    assert (second.net_minor, second.category, second.final_sale) == (49_99, None, False)
    assert [payment.refunded_minor for payment in order.payments] == [20_00, 0, 0]
    assert (str(order.paid), str(order.charged_back)) == ("199.92 USD", "49.99 USD")


def test_an_order_that_says_none_of_it_has_none() -> None:
    order = parse_order(order_record())
    assert (order.discount_minor, order.shipping_minor, order.tax_minor) == (0, 0, 0)
    assert (order.lines[0].discount_minor, order.lines[0].final_sale) == (0, False)


YEN: dict[str, Any] = {"currency": "JPY", "payments": [PAYMENT | {"amount": "100"}]}
DINAR: dict[str, Any] = {"currency": "KWD", "payments": [PAYMENT | {"amount": "1.250"}]}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"discount": "50.00"}, "discount: is above the 49.99 USD that it is taken off"),
        (
            {"items": [ITEM | {"discount": "10.00"}], "discount": "40.00"},
            "discount: is above the 39.99 USD",
        ),
        ({"items": [ITEM | {"discount": "50.00"}]}, r"items\[1\].discount: is above the 49.99 USD"),
        ({"items": [ITEM | {"discount": "-1.00"}]}, r"items\[1\].discount: '-1.00'"),
        ({"items": [ITEM | {"category": ""}]}, r"items\[1\].category: '' is not a text"),
        ({"items": [ITEM | {"category": 7}]}, r"items\[1\].category: 7"),
        ({"items": [ITEM | {"final_sale": "yes"}]}, r"items\[1\].final_sale: 'yes' is neither"),
        ({"items": [ITEM | {"final_sale": 1}]}, r"items\[1\].final_sale: 1 is neither"),
        ({"shipping": 5}, "shipping: 5 is not an amount"),
        ({"shipping": "5.001"}, "shipping: '5.001' has more decimals than USD has"),
        ({"tax": "-1.00"}, "tax: '-1.00' is not an amount"),
        ({"tax": "1e3"}, "tax: '1e3' is not an amount"),
        (
            YEN | {"items": [ITEM | {"unit_price": "100"}], "shipping": "1.5"},
            "shipping: '1.5' has more decimals than JPY has",
        ),
        (
            DINAR | {"items": [ITEM | {"unit_price": "1.250"}], "tax": "0.0001"},
            "tax: '0.0001' is not an amount",
        ),
        ({"payments": [PAYMENT | {"refunded": "50.00"}]}, r"payments\[1\].refunded: is above the"),
        ({"payments": [PAYMENT | {"charged_back_at": "2026"}]}, r"payments\[1\].charged_back_at: "),
        ({"paid": "50.00"}, "paid: 50.00 USD is not the 49.99 USD that the payments come to"),
        ({"refunded_or_under_way": "some"}, "refunded_or_under_way: 'some' is not an amount"),
    ],
)
def test_nonsense_beside_the_items_is_refused_by_name(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(OrderProblem, match=complaint):
        parse_order(order_record(**changes))


def test_a_currency_s_own_decimals_are_taken_everywhere() -> None:
    dinar = parse_order(
        order_record(
            **DINAR | {"items": [ITEM | {"unit_price": "1.250", "discount": "0.125"}]},
            discount="0.125",
            shipping="0.5",
            tax="0.050",
        )
    )
    assert (dinar.discount_minor, dinar.shipping_minor, dinar.tax_minor) == (125, 500, 50)
    assert dinar.lines[0].net_minor == 1125


@settings(max_examples=40)
@given(bought=purchases())
def test_what_is_written_down_is_read_back(bought: Order) -> None:
    assert parse_order(render_order(bought)) == bought


def test_all_of_it_is_written_down_and_read_back() -> None:
    assert parse_order(render_order(parse_order(WHOLE))) == parse_order(WHOLE)


def test_what_reads_no_order_does_not_load_pydantic() -> None:
    program = "import sys, mailagent.cli, mailagent.web.api; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


# --- orders json ----------------------------------------------------------------------------------


ONE, TWO = order_record("W1"), order_record("W2")


def found(text: str) -> list[tuple[int, str]]:
    orders = parse_orders(text.encode(), Reading(NOW)).orders
    return [(line_no, order.order_id) for line_no, order in orders]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n", [1, 3]),
        (f"\ufeff\n{json.dumps(ONE, indent=2)}\n{json.dumps(TWO, indent=2)}\n", [2, None]),
        (json.dumps([ONE, TWO]), [1, 1]),
        (f"[\n{json.dumps(ONE)},\n{json.dumps(TWO)}\n]\n", [2, 3]),
        (json.dumps([ONE, TWO], indent=4), [2, None]),
        ("[]", []),
        ("", []),
    ],
    ids=["lines", "laid out", "array", "array of lines", "array laid out", "none", "empty"],
)
def test_orders_may_be_laid_out_in_any_way(text: str, lines: list[int | None]) -> None:
    orders = found(text)
    assert [order_id for _, order_id in orders] == ["W1", "W2"][: len(lines)]
    for (line_no, order_id), line in zip(orders, lines, strict=True):
        place = next(at for at, each in enumerate(text.split("\n"), 1) if f'"{order_id}"' in each)
        # Its object begins on the line before, or on the same.
        assert line_no == (line or place - 1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (json.dumps(ONE, indent=2) + "\n{\n}\n", "line 27: the order: 'order_id' is missing"),
        (json.dumps(ONE, indent=2)[:-1], "is not JSON"),
        (
            f"{json.dumps(ONE)}\n{json.dumps(TWO | {'currency': 'ZZZ'})}",
            "line 2: currency: ZZZ is no currency of ISO 4217",
        ),
        (f"[\n{json.dumps(ONE)}", "line 2: is not JSON"),
        (f"[\n{json.dumps(ONE)},\n17]", "line 3"),
        (f"[\n{json.dumps(ONE)}]\n{json.dumps(TWO)}", "line 3: is not JSON"),
        ('[{"order_id": "W1",\n"order_id": "W1"}]', "line 1: the key 'order_id' stands twice"),
        (f"{json.dumps(ONE)}\n{json.dumps(TWO)[:-1]}", "line 2: is not JSON"),
        ("[" * 100_000, "line 1: is not JSON"),
        (f"{json.dumps(ONE)[:-1]}\n{json.dumps(TWO)}", "line 1: is not JSON"),
        (f"{json.dumps(ONE)}\nnothing", "line 2: is not JSON"),
        (f"{json.dumps(ONE)}\n{'1' * 5_000}", "line 2: is not JSON"),
        (f"[\n{json.dumps(ONE)},\n", "line 3: is not JSON"),
        (f"[\n{json.dumps(ONE)}]\n]", "line 3: is not JSON"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, complaint: str) -> None:
    with pytest.raises(OrdersFileProblem) as caught:
        found(text)
    assert complaint in str(caught.value)


# --- parcels --------------------------------------------------------------------------------------

PARCEL: dict[str, Any] = {
    "shipment_id": "S1",
    "status": "in_transit",
    "carrier": "DHL",
    "tracking_number": "JD0141",
    "tracking_url": "https://dhl.example/track?n=JD0141&lang=en",
    "shipped_at": "2999-01-02T09:00:00Z",
    "expected_at": "2999-01-05T00:00:00Z",
    "last_event_at": "2999-01-03T10:30:00+01:00",
    "items": [{"item_id": "K1", "quantity": 1}],
}


def test_parcels_are_read_and_written_back() -> None:
    bare = {"shipment_id": "S2", "status": "label_created"}
    order = parse_order(order_record(shipments=[PARCEL | {"delivered_at": None}, bare]))
    first, second = order.shipments
    assert (first.carrier, first.items) == ("DHL", (("K1", 1),))
    assert first.last_event_at == datetime(2999, 1, 3, 9, 30, tzinfo=UTC)
    assert second == Shipment("S2", ShipmentStatus.LABEL_CREATED)
    assert parse_order(render_order(order)) == order
    assert render_order(order)["shipments"][1] == bare


@pytest.mark.parametrize("absent", [{}, {"shipments": None}, {"shipments": []}])
def test_an_order_may_have_no_parcels(absent: dict[str, Any]) -> None:
    order = parse_order(order_record(**absent))
    assert order.shipments == ()
    assert "shipments" not in render_order(order)


DELIVERED = {"status": "delivered", "delivered_at": "2999-01-02T09:00:00Z"}


@pytest.mark.parametrize(
    "change", [DELIVERED, DELIVERED | {"status": "returned"}, {"items": None}, {"items": []}]
)
def test_what_a_parcel_may_say(change: dict[str, Any]) -> None:
    assert parse_order(order_record(shipments=[PARCEL | change])).shipments


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"status": "lost"}, r"shipments\[1\].status: 'lost' is refused; it should be 'label_created', "),
        ({"driver": "Bob"}, r"shipments\[1\]: unknown key 'driver'; known are carrier, "),
        ({"tracking_url": "http://dhl.example/1"}, r"\.tracking_url: .* is not a link that begins with https"),
        ({"tracking_url": "javascript:alert(1)"}, r"\.tracking_url: .* is not a link"),
        ({"tracking_url": "https://"}, r"\.tracking_url: .* is not a link"),
        ({"tracking_url": "https://dhl.example@evil.example/"}, r"\.tracking_url: .* is not a link"),
        ({"tracking_url": "https://dhl.example/a b"}, r"\.tracking_url: .* is not a link"),
        ({"tracking_url": "https://[dhl"}, r"\.tracking_url: "),
        ({"tracking_number": "1\n2"}, r"\.tracking_number: .* control characters"),
        ({"shipped_at": "2026-11-02T09:00:00"}, r"\.shipped_at: .* has no time zone"),
        ({"shipped_at": "1999-01-01T00:00:00Z"}, r"shipments\[1\].shipped_at: lies before placed_at"),
        ({"status": "delivered"}, r"shipments\[1\].delivered_at: missing, although status is delivered"),
        ({"delivered_at": "2999-01-06T09:00:00Z"}, r"\.delivered_at: given, although status is in_transit"),
        (DELIVERED | {"delivered_at": "2999-01-02T08:59:59Z"}, r"\.delivered_at: lies before shipped_at"),
        ({"items": [{"item_id": "K9", "quantity": 1}]},
            r"\.items: 1 in the parcel, but the order has 0 of item 'K9'"),
        ({"items": [{"item_id": "K1", "quantity": 1}] * 2},
            r"\.items: 2 in the parcel, but the order has 1 of item 'K1'"),
        ({"items": [{"item_id": "K1", "quantity": 0}]}, r"shipments\[1\].items\[1\].quantity: 0"),
    ],
)  # fmt: skip
def test_a_parcel_that_cannot_be_is_refused_by_name(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OrderProblem, match=complaint):
        parse_order(order_record(shipments=[PARCEL | change]))


def test_two_parcels_of_one_name_are_refused() -> None:
    with pytest.raises(OrderProblem, match="shipments: a shipment_id stands twice"):
        parse_order(order_record(shipments=[PARCEL, PARCEL]))
