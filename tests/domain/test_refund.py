"""What a refund covers and is worth, and which states follow each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.money import Money
from mailagent.domain.refunds.duplicates import find_covering, find_holding, list_refusals
from mailagent.domain.refunds.order import OrderLine, Payment, split_over_payments
from mailagent.domain.refunds.policy import ManagerReason
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    Refund,
    RefundLine,
    RefundStatus,
    WantedItem,
    check_transition,
    price_lines,
    price_shipping,
)
from tests.cast import NOW, order
from tests.domain.table_ware import (
    EXPIRED,
    MUGS,
    PAID,
    POT,
    REJECTED,
    asked,
    earlier,
    table_ware,
    usd,
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


def test_a_refund_that_failed_in_part_keeps_its_units_and_holds_what_was_paid() -> None:
    failed = earlier(RefundLine(1, 2, usd(20_00)), status=RefundStatus.FAILED)
    in_part = replace(failed, part_paid=usd(5_00))
    bought = table_ware("55.00", (MUGS, POT))
    assert covered(price_lines(bought, [WantedItem("M")], [failed])) == [(1, 3, 30_00)]
    assert covered(price_lines(bought, [WantedItem("M")], [in_part])) == [(1, 1, 10_00)]


@pytest.mark.parametrize("status", list(RefundStatus))
def test_a_refund_holds_its_amount_until_it_ends_unpaid(status: RefundStatus) -> None:
    refund = earlier(RefundLine(1, 2, usd(20_00)), status=status)
    held = status in (RefundStatus.AWAITING_APPROVAL, RefundStatus.APPROVED, RefundStatus.PAID)
    assert (refund.holds_money, refund.held) == (held, usd(20_00 if held else 0))
    if status is RefundStatus.FAILED:
        in_part = replace(refund, part_paid=usd(5_00))
        assert (in_part.holds_money, in_part.held) == (True, usd(5_00))


def test_the_same_units_are_the_same_wish_whatever_they_are_worth_now() -> None:
    refund = asked((1, 2), (2, 1))
    assert refund.is_for([RefundLine(2, 1, usd(9)), RefundLine(1, 2, usd(9))])
    assert not refund.is_for([RefundLine(2, 1, usd(1))])
    assert not refund.is_for([RefundLine(2, 1, usd(1)), RefundLine(1, 3, usd(1))])


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


@given(
    paid=st.integers(0, 10_000),
    price=st.integers(0, 5_000),
    steps=st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=20),
)
def test_rejections_in_between_change_nothing_of_what_all_units_are_worth(
    paid: int, price: int, steps: list[tuple[int, bool]]
) -> None:
    line = OrderLine(1, "i", "thing", 7, Money(price, "USD"))
    bought = replace(order(), lines=(line,), payments=(Payment("p", "card", Money(paid, "USD")),))
    refunds: list[Refund] = []
    for units, rejected in [*steps, (7, False)]:
        lines = price_lines(bought, [WantedItem("i", units)], refunds)
        assert all(part.amount.minor <= price * part.quantity for part in lines)
        refunds.append(earlier(*lines, status=REJECTED if rejected else PAID))
    assert sum(refund.held.minor for refund in refunds) == min(paid, price * 7)


def test_a_unit_freed_by_a_rejection_is_worth_what_is_missing() -> None:
    cups = {"item_id": "C", "name": "Cup", "quantity": 3, "unit_price": "4.00"}
    bought = table_ware("10.00", (cups,))
    refunds: list[Refund] = []
    for status in (REJECTED, PAID, PAID):  # all three asked for before the first was rejected
        held = [replace(refund, status=PAID) for refund in refunds]
        lines = price_lines(bought, [WantedItem("C", 1)], held)
        refunds.append(earlier(*lines, status=status))
    assert [refund.amount.minor for refund in refunds] == [3_33, 3_33, 3_34]
    assert covered(price_lines(bought, [WantedItem("C")], refunds)) == [(1, 1, 3_33)]


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


def dinars(*amounts: str) -> Any:
    """An order in Kuwaiti dinars; its cards give back no less than 0.010."""
    paid = [
        {"payment_id": f"p{number}", "method": "card", "amount": amount}
        for number, amount in enumerate(amounts, start=1)
    ]
    tea = {"item_id": "T1", "name": "Tea", "quantity": 1, "unit_price": "13.335"}
    return order(currency="KWD", items=[tea], payments=paid)


@pytest.mark.parametrize(
    ("amounts", "minor", "earlier", "parts"),
    [
        (("10.000", "3.335"), 6_665, {}, {"p1": 6_660, "p2": 5}),
        (("3.335", "10.000"), 6_665, {}, {"p1": 3_335, "p2": 3_330}),
        (("3.335", "10.000"), 6_670, {"p1": 5}, {"p1": 3_330, "p2": 3_340}),
        (("10.000", "3.335"), 5, {}, {"p2": 5}),
        (("10.000", "3.335"), 13_335, {}, {"p1": 10_000, "p2": 3_335}),
        (("10.000", "3.335"), 6_665, {"p2": 3_335}, {"p1": 6_665}),  # there is no other
        (("13.340",), 6_665, {}, {"p1": 6_665}),  # as the shop's people can pay it
    ],
)
def test_a_card_gets_back_what_cards_can_and_another_payment_the_rest(
    amounts: tuple[str, ...], minor: int, earlier: dict[str, int], parts: dict[str, int]
) -> None:
    found = split_over_payments(dinars(*amounts), Money(minor, "KWD"), earlier)
    assert {name: part.minor for name, part in found} == parts


def test_a_gift_card_that_comes_first_leaves_a_card_what_it_can_give_back() -> None:
    payments = (
        Payment("gift", "gift_card", Money(5_005, "KWD")),
        Payment("card", "card", Money(10_000, "KWD")),
    )
    bought = replace(order(), currency="KWD", payments=payments)
    parts = split_over_payments(bought, Money(6_000, "KWD"), {})
    assert parts == (("gift", Money(5_000, "KWD")), ("card", Money(1_000, "KWD")))


def test_two_gift_cards_leave_a_card_what_it_can_give_back() -> None:
    payments = (
        Payment("gift", "gift_card", Money(3, "KWD")),
        Payment("card", "card", Money(20_000, "KWD")),
        Payment("other", "gift_card", Money(5, "KWD")),
    )
    bought = replace(order(), currency="KWD", payments=payments)
    parts = split_over_payments(bought, Money(11, "KWD"), {})
    assert parts == (("gift", Money(1, "KWD")), ("card", Money(10, "KWD")))


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("card", 10),
        ("Apple Pay", 10),
        ("tap", 10),
        ("card + gift card", 10),
        ("bacs", 1),
        ("Gift Card", 1),
    ],
)
def test_a_payment_that_may_be_by_card_gives_back_multiples(method: str, step: int) -> None:
    assert Payment("p", method, Money(6_670, "KWD")).step_minor == step
    assert Payment("p", method, Money(6_675, "KWD")).step_minor == 1


def test_a_payment_that_the_bank_took_back_gives_nothing() -> None:
    payments = [
        {"payment_id": "card", "method": "card", "amount": "30.00", "charged_back_at": str(NOW)},
        {"payment_id": "gift", "method": "gift_card", "amount": "20.00"},
    ]
    bought = order(payments=payments)
    assert split_over_payments(bought, usd(5_00), {}) == (("gift", usd(5_00)),)
    with pytest.raises(ValueError, match="cannot give back"):
        split_over_payments(bought, usd(25_00), {})


def test_fewer_units_come_to_what_a_card_can_get_back() -> None:
    dinar = Money(1_000, "KWD")
    three = replace(earlier(RefundLine(1, 3, dinar)), amount=dinar, item_ids=("M1",))
    assert three.covering({1: 2}).amount == Money(660, "KWD")


def test_the_carriage_goes_back_with_the_last_unit_and_once() -> None:
    bought = order(
        items=[MUGS],
        shipping="5.00",
        payments=[{"payment_id": "p1", "method": "card", "amount": "35.00"}],
    )
    two, last = RefundLine(1, 2, usd(20_00)), RefundLine(1, 1, usd(10_00))
    assert price_shipping(bought, [two], []) == usd(0)
    assert price_shipping(bought, [last], [earlier(two)]) == usd(5_00)
    whole = replace(earlier(two, last), shipping_minor=5_00)
    assert price_shipping(bought, [last], [whole]) == usd(0)
    kept = replace(earlier(replace(two, amount=usd(6_00))), keeps_items=True)
    assert price_shipping(bought, [last], [kept]) == usd(0)


ALLOWED = {
    ("awaiting_approval", "approved"),
    ("awaiting_approval", "rejected"),
    ("awaiting_approval", "expired"),
    ("awaiting_approval", "withdrawn"),
    ("awaiting_approval", "failed"),
    ("approved", "paid"),
    ("approved", "rejected"),  # a manager refuses it after all
    ("approved", "failed"),
    ("approved", "withdrawn"),
    ("paid", "failed"),  # the money came back
}


@pytest.mark.parametrize(("current", "following"), list(product(RefundStatus, RefundStatus)))
def test_a_refund_takes_only_allowed_steps(current: RefundStatus, following: RefundStatus) -> None:
    if (current.value, following.value) in ALLOWED:
        check_transition(current, following)
    else:
        with pytest.raises(ValueError, match="cannot become"):
            check_transition(current, following)


# --- refusal --------------------------------------------------------------------------------------


def came_back(*units: tuple[int, int], left: int = 0) -> Refund:
    """A refund that was paid and came back, but for what is `left` of it."""
    failed = asked(*units, status=RefundStatus.FAILED)
    return replace(failed, returned=usd(1), part_paid=usd(left) if left else None)


@pytest.mark.parametrize(
    ("past", "units", "overlaps"),
    [
        pytest.param([], [(1, 3)], False, id="nothing was asked before"),
        pytest.param([asked((1, 3))], [(2, 1)], False, id="another line was refused"),
        pytest.param([asked((2, 1))], [(2, 1)], True, id="the same was refused"),
        pytest.param([asked((1, 3), (2, 1))], [(2, 1)], True, id="a part of it"),
        pytest.param([asked((2, 1))], [(1, 3), (2, 1)], True, id="more than it"),
        pytest.param([came_back((2, 1))], [(2, 1)], True, id="the money came back"),
        pytest.param([came_back((2, 1))], [(1, 1)], False, id="that of another line"),
        pytest.param([came_back((1, 1), left=1)], [(1, 1)], False, id="a part of it did not"),
        pytest.param([asked((1, 3))], [(3, 3)], True, id="the item's other line"),
        pytest.param([asked((1, 2))], [(1, 1)], True, id="one that nobody asked for"),
        pytest.param([asked((1, 1))], [(1, 2)], True, id="more of it than was refused"),
        pytest.param(
            [asked((1, 1)), asked((1, 1), status=PAID)], [(1, 1)], True, id="paid and refused"
        ),
        pytest.param([asked((1, 1), status=PAID)], [(1, 1)], False, id="one was paid"),
        *(
            pytest.param([asked((2, 1), status=status)], [(2, 1)], status in (REJECTED, EXPIRED),
                         id=f"it is {status}")
            for status in RefundStatus
        ),
    ],
)  # fmt: skip
def test_units_that_were_refused_are_known_again(
    past: list[Refund], units: list[tuple[int, int]], overlaps: bool
) -> None:
    lines = [RefundLine(line_no, quantity, usd(1)) for line_no, quantity in units]
    assert bool(list_refusals(table_ware(), lines, past)) is overlaps


def test_each_way_of_a_refusal_is_named_once() -> None:
    pot = [RefundLine(2, 1, usd(1))]
    past = [asked((2, 1)), came_back((2, 1)), asked((2, 1), status=EXPIRED), asked((2, 1))]
    assert list_refusals(table_ware(), pot, past) == (
        ManagerReason.REJECTED_BEFORE,
        ManagerReason.CAME_BACK,
        ManagerReason.EXPIRED_BEFORE,
    )


def test_a_refused_item_is_known_again_where_the_shop_has_moved_its_line() -> None:
    moved = table_ware(items=(POT, MUGS))
    pot, mug = RefundLine(1, 1, usd(25_00)), RefundLine(2, 1, usd(10_00))
    assert list_refusals(moved, [pot], [asked((2, 1))])
    assert not list_refusals(moved, [mug], [asked((2, 1))])


@pytest.mark.parametrize("status", [RefundStatus.APPROVED, PAID, RefundStatus.WITHDRAWN])
def test_an_item_that_a_manager_left_out_is_known_again(status: RefundStatus) -> None:
    left_out = asked((1, 2), (2, 1), status=status).covering({2: 0})
    pot, mug = RefundLine(2, 1, usd(1)), RefundLine(1, 1, usd(1))
    assert list_refusals(table_ware(), [pot], [left_out]) == (ManagerReason.LEFT_OUT,)
    assert not list_refusals(table_ware(), [mug], [left_out])


# --- overlap --------------------------------------------------------------------------------------


MUG_ORDER = order(
    items=[
        {"item_id": "M", "name": "Mug", "quantity": 3, "unit_price": "10.00"},
        {"item_id": "K", "name": "Kettle", "quantity": 1, "unit_price": "19.99"},
    ]
)


def refund(refund_id: str, status: RefundStatus, **units: int) -> Refund:
    numbers = {"M": 1, "K": 2}
    lines = (RefundLine(numbers[item], n, usd(n)) for item, n in units.items())
    return replace(earlier(*lines, status=status), refund_id=refund_id, item_ids=tuple(units))


PAST = [
    refund("r0", RefundStatus.REJECTED, M=3, K=1),
    refund("r1", RefundStatus.PAID, M=1),
    refund("r2", RefundStatus.AWAITING_APPROVAL, K=1),
    refund("r3", RefundStatus.WITHDRAWN, M=1),
]


@pytest.mark.parametrize(
    ("wanted", "got", "covering"),
    [
        ((WantedItem("M", 3),), {"M": 2}, ["r1"]),
        ((WantedItem("M"),), {"M": 2}, ["r1"]),
        ((WantedItem("M", 2),), {"M": 2}, []),
        ((WantedItem("M", 2), WantedItem("K")), {"M": 2}, ["r2"]),
        ((WantedItem("M"), WantedItem("K")), {"M": 2}, ["r1", "r2"]),
    ],
)
def test_only_what_is_short_is_told_of(
    wanted: tuple[WantedItem, ...], got: dict[str, int], covering: list[str]
) -> None:
    new = refund("r4", RefundStatus.APPROVED, **got)
    found = find_covering(MUG_ORDER, wanted, new, [*PAST, new])
    assert [each.refund_id for each in found] == covering


@pytest.mark.parametrize(
    ("item_ids", "holding"),
    [(["M"], ["r1"]), (["K"], ["r2"]), (["K", "M"], ["r1", "r2"]), ([], [])],
)
def test_only_what_holds_units_of_the_same_items_is_found(
    item_ids: list[str], holding: list[str]
) -> None:
    assert [each.refund_id for each in find_holding(item_ids, PAST)] == holding
