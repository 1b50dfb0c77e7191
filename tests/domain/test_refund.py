"""What a refund covers and is worth, and which states follow each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.money import Money
from mailagent.domain.order import Order, OrderLine, Payment
from mailagent.domain.refund import (
    ItemsProblem,
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    WantedItem,
    check_transition,
    price_lines,
    split_over_payments,
)
from tests.cast import NOW, order

MUGS = {"item_id": "M", "name": "Mug", "quantity": 3, "unit_price": "10.00"}
POT = {"item_id": "P", "name": "Pot", "quantity": 1, "unit_price": "25.00"}


def table_ware(
    paid: str = "65.00", items: tuple[dict[str, object], ...] = (MUGS, POT, MUGS)
) -> Order:
    return order(
        items=list(items), payments=[{"payment_id": "p1", "method": "card", "amount": paid}]
    )


def earlier(*lines: RefundLine, status: RefundStatus = RefundStatus.PAID) -> Refund:
    total = Money(sum(line.amount.minor for line in lines), "USD")
    return Refund(
        "refund_1", "W1001", "c", "m", total, lines, (), RefundReason.DAMAGED, status, NOW
    )


def covered(lines: tuple[RefundLine, ...]) -> list[tuple[int, int, int]]:
    return [(line.line_no, line.quantity, line.amount.minor) for line in lines]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param([WantedItem("P")], [(2, 1, 25_00)], id="one item"),
        pytest.param([WantedItem("M", 1)], [(1, 1, 10_00)], id="one of several"),
        pytest.param([WantedItem("M", 4)], [(1, 3, 30_00), (3, 1, 10_00)], id="over two lines"),
        pytest.param([WantedItem("M")], [(1, 3, 30_00), (3, 3, 30_00)], id="all of an item"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_wanted_items_become_lines(
    wanted: list[WantedItem], expected: list[tuple[int, int, int]]
) -> None:
    assert covered(price_lines(table_ware("85.00"), wanted, [])) == expected


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ([WantedItem("X")], "not on order"),
        ([WantedItem("P", 2)], "from 1 to 1"),
        ([WantedItem("P", 0)], "from 1 to 1"),
        ([WantedItem("M", -1)], "from 1 to 6"),
        ([WantedItem("P"), WantedItem("P")], "named twice"),
    ],
)
def test_items_that_do_not_fit_are_named(wanted: list[WantedItem], complaint: str) -> None:
    with pytest.raises(ItemsProblem, match=complaint):
        price_lines(table_ware(), wanted, [])


@pytest.mark.parametrize(
    ("status", "left"),
    [
        (RefundStatus.PAID, [(1, 1, 10_00)]),
        (RefundStatus.AWAITING_APPROVAL, [(1, 1, 10_00)]),
        (RefundStatus.APPROVED, [(1, 1, 10_00)]),
        (RefundStatus.REJECTED, [(1, 3, 30_00)]),
        (RefundStatus.EXPIRED, [(1, 3, 30_00)]),
        (RefundStatus.FAILED, [(1, 3, 30_00)]),
    ],
)
def test_units_that_a_refund_holds_are_not_given_again(
    status: RefundStatus, left: list[tuple[int, int, int]]
) -> None:
    held = earlier(RefundLine(1, 2, Money(20_00, "USD")), status=status)
    bought = table_ware("55.00", (MUGS, POT))
    assert covered(price_lines(bought, [WantedItem("M")], [held])) == left


def test_nothing_is_left_when_all_was_refunded() -> None:
    held = earlier(RefundLine(2, 1, Money(25_00, "USD")))
    assert price_lines(table_ware(), [WantedItem("P")], [held]) == ()


@given(
    paid=st.integers(0, 10_000),
    prices=st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 5)), min_size=1, max_size=6),
)
def test_all_units_together_are_worth_what_was_paid(
    paid: int, prices: list[tuple[int, int]]
) -> None:
    lines = tuple(
        OrderLine(number, f"i{number}", "thing", quantity, Money(price, "USD"))
        for number, (price, quantity) in enumerate(prices, start=1)
    )
    payments = (Payment("p", "card", Money(paid, "USD")),)
    bought = replace(order(), lines=lines, payments=payments)
    refunds: list[Refund] = []
    given_back = 0
    for line in lines:  # one unit at a time, as an unlucky customer might ask
        for _ in range(line.quantity):
            unit = price_lines(bought, [WantedItem(line.item_id, 1)], refunds)
            given_back += sum(part.amount.minor for part in unit)
            refunds.append(earlier(*unit))
    total = sum(price * quantity for price, quantity in prices)
    assert given_back == min(paid, total)


def test_a_refund_goes_back_to_the_payments_in_their_order() -> None:
    payments = [
        {"payment_id": "card", "method": "card", "amount": "30.00"},
        {"payment_id": "gift", "method": "gift_card", "amount": "20.00"},
    ]
    bought = order(payments=payments)
    parts = split_over_payments(bought, Money(25_00, "USD"), {"card": 10_00})
    assert parts == (("card", Money(20_00, "USD")), ("gift", Money(5_00, "USD")))
    with pytest.raises(ValueError, match="cannot give back"):
        split_over_payments(bought, Money(25_00, "USD"), {"card": 30_00})


ALLOWED = {
    ("awaiting_approval", "approved"),
    ("awaiting_approval", "rejected"),
    ("awaiting_approval", "expired"),
    ("awaiting_approval", "withdrawn"),
    ("awaiting_approval", "failed"),
    ("approved", "paid"),
    ("approved", "failed"),
}


@pytest.mark.parametrize(("current", "following"), list(product(RefundStatus, RefundStatus)))
def test_a_refund_takes_only_allowed_steps(current: RefundStatus, following: RefundStatus) -> None:
    if (current.value, following.value) in ALLOWED:
        check_transition(current, following)
    else:
        with pytest.raises(ValueError, match="cannot become"):
            check_transition(current, following)
