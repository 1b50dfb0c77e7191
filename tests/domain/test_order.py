"""Orders as records: what is refused, and where the message says it is."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.domain.order import OrderProblem, OrderStatus, parse_order
from tests.cast import order_record

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
        ({"status": "lost"}, "status: 'lost' is none of pending, shipped"),
        ({"placed_at": "yesterday"}, "placed_at: "),
        ({"placed_at": "2026-11-01T09:00:00"}, "no time zone"),
        ({"delivered_at": "2020-01-01T00:00:00Z"}, "lies before placed_at"),
        ({"delivered_at": None}, "delivered_at: missing, although"),
        ({"items": []}, "items: an order needs at least one"),
        ({"items": {}}, "items: is not a list"),
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
