"""What units and carriage are worth: in whatever order they come back, they add up to what was paid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, Payment, split_over_payments
from mailagent.domain.refunds.refund import (
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    WantedItem,
    price_lines,
    price_shipping,
)
from tests.cast import NOW, order
from tests.domain.purchases import purchases

REJECTED, AWAITING, PAID = (
    RefundStatus.REJECTED,
    RefundStatus.AWAITING_APPROVAL,
    RefundStatus.PAID,
)


def refund(bought: Order, wanted: list[WantedItem], earlier: list[Refund]) -> Refund:
    """The refund that code makes of a wish."""
    lines = price_lines(bought, wanted, earlier)
    shipping = price_shipping(bought, lines, earlier)
    amount = Money(sum(line.amount.minor for line in lines) + shipping.minor, bought.currency)
    return Refund(
        f"refund_{len(earlier)}",
        bought.order_id,
        "c",
        "m",
        amount,
        lines,
        tuple(
            next(each.item_id for each in bought.lines if each.line_no == line.line_no)
            for line in lines
        ),
        RefundReason.DAMAGED,
        AWAITING,
        NOW,
        shipping_minor=shipping.minor,
    )


def everything(bought: Order) -> list[WantedItem]:
    return [WantedItem(item_id) for item_id in sorted({line.item_id for line in bought.lines})]


def worth(bought: Order) -> int:
    """What may go back in all: what was paid, but no more than the order came to."""
    goods = sum(line.net_minor for line in bought.lines) - bought.discount_minor
    if not goods + bought.shipping_minor:
        return 0
    return bought.share(min(bought.paid.minor, goods + bought.shipping_minor + bought.tax_minor), 1)


@settings(max_examples=120)
@given(bought=purchases(), data=st.data())
def test_all_units_and_the_carriage_add_up_to_what_was_paid(
    bought: Order, data: st.DataObject
) -> None:
    """Wishes in any order and size; each waits, is paid or is rejected, some of them later than others."""
    refunds: list[Refund] = []
    bought_of = {want.item_id: 0 for want in everything(bought)}
    for line in bought.lines:
        bought_of[line.item_id] += line.quantity
    for _ in range(data.draw(st.integers(0, 8), label="wishes")):
        item = data.draw(st.sampled_from(sorted(bought_of)), label="item")
        units = data.draw(st.integers(1, bought_of[item]), label="units")
        refunds.append(refund(bought, [WantedItem(item, units)], refunds))
        decided = data.draw(st.integers(0, len(refunds) - 1), label="decided")
        if refunds[decided].status is AWAITING:
            status = data.draw(st.sampled_from([PAID, REJECTED, AWAITING]), label="how")
            refunds[decided] = replace(refunds[decided], status=status)
        assert sum(each.held.minor for each in refunds) <= worth(bought)
    refunds.append(refund(bought, everything(bought), refunds))
    assert sum(each.held.minor for each in refunds) == worth(bought)
    assert refund(bought, everything(bought), refunds).amount.minor == 0


@settings(max_examples=50)
@given(bought=purchases(), data=st.data())
def test_parts_of_payments_add_up_and_no_payment_gives_back_more_than_it_was(
    bought: Order, data: st.DataObject
) -> None:
    given_back = {payment.payment_id: 0 for payment in bought.payments}
    refunds: list[Refund] = []
    for want in data.draw(st.permutations(everything(bought)), label="wishes"):
        refunds.append(refund(bought, [want], refunds))
        parts = split_over_payments(bought, refunds[-1].amount, given_back)
        assert sum(part.minor for _, part in parts) == refunds[-1].amount.minor
        for payment_id, part in parts:
            given_back[payment_id] += part.minor
    assert all(given_back[each.payment_id] <= each.amount.minor for each in bought.payments)


@settings(max_examples=200)
@given(
    paid=st.lists(
        st.tuples(st.sampled_from(["card", "gift_card"]), st.integers(0, 60)),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
)
def test_a_card_gets_an_odd_part_only_if_there_is_no_other_way(
    paid: list[tuple[str, int]], data: st.DataObject
) -> None:
    payments = tuple(
        Payment(f"p{number}", method, Money(minor * (10 if method == "card" else 1), "KWD"))
        for number, (method, minor) in enumerate(paid)
    )
    gone = {
        each.payment_id: data.draw(st.integers(0, each.amount.minor), label="gone")
        for each in payments
    }
    left = {each.payment_id: each.amount.minor - gone[each.payment_id] for each in payments}
    steps = {each.payment_id: 10 if each.method == "card" else 1 for each in payments}
    minor = data.draw(st.integers(0, sum(left.values())), label="minor")
    parts = split_over_payments(
        replace(order(), currency="KWD", payments=payments), Money(minor, "KWD"), gone
    )
    assert sum(part.minor for _, part in parts) == minor
    assert all(part.minor <= left[name] for name, part in parts)
    by_card = sum(left[name] // 10 * 10 for name in left if steps[name] == 10)
    others = sum(left[name] for name in left if steps[name] == 1)
    possible = any(0 <= minor - cards <= others for cards in range(0, by_card + 1, 10))
    assert all(part.minor % steps[name] == 0 for name, part in parts) is possible


@settings(max_examples=50)
@given(bought=purchases())
def test_no_unit_is_worth_more_than_its_price_with_the_tax_on_top(bought: Order) -> None:
    goods = sum(line.net_minor for line in bought.lines) - bought.discount_minor
    for line in bought.lines:
        for part in price_lines(bought, [WantedItem(line.item_id)], []):
            net = bought.lines[part.line_no - 1].net_minor
            tax = bought.tax_minor * net // goods + 1 if goods else 0
            # The last of three decimals is 0, in the sum before a line and in the sum with it.
            step = 2 * 9 if bought.currency == "KWD" else 0
            assert part.amount.minor <= net + tax + step


# --- by hand ------------------------------------------------------------------------------------


def shop_order(**changes: Any) -> Order:
    """Two mugs for 10.00 each with 2.00 off, a kettle for 50.00, 8.00 off all, 5.00 for carriage."""
    record: dict[str, Any] = {
        "items": [
            {
                "item_id": "M",
                "name": "Mug",
                "quantity": 2,
                "unit_price": "10.00",
                "discount": "2.00",
            },
            {"item_id": "K", "name": "Kettle", "quantity": 1, "unit_price": "50.00"},
        ],
        "payments": [{"payment_id": "p", "method": "card", "amount": "65.00"}],
        "discount": "8.00",
        "shipping": "5.00",
    }
    return order(**(record | changes))


def paying(amount: str) -> dict[str, Any]:
    return {"payments": [{"payment_id": "p", "method": "card", "amount": amount}]}


@pytest.mark.parametrize(
    ("changes", "mug", "kettle", "carriage"),
    [
        pytest.param({}, 7_94, 44_12, 5_00, id="discounts shared by what lines cost"),
        pytest.param(
            {"tax": "6.50", **paying("71.50")}, 8_73, 48_53, 5_50, id="ten percent on top"
        ),
        pytest.param(paying("32.50"), 3_97, 22_06, 2_50, id="half of it paid"),
        pytest.param(paying("100.00"), 7_94, 44_12, 5_00, id="more than it cost paid"),
        pytest.param(paying("0.00"), 0, 0, 0, id="nothing paid"),
        pytest.param({"payments": []}, 0, 0, 0, id="no payment"),
        pytest.param({"discount": "68.00", **paying("5.00")}, 0, 0, 5_00, id="free, but carriage"),
        pytest.param(
            {"discount": "68.00", "shipping": "0.00", **paying("0.00")}, 0, 0, 0, id="all free"
        ),
    ],
)
def test_what_is_worth_what(changes: dict[str, Any], mug: int, kettle: int, carriage: int) -> None:
    bought = shop_order(**changes)
    assert refund(bought, [WantedItem("M", 1)], []).amount.minor == mug
    assert [line.amount.minor for line in price_lines(bought, [WantedItem("K")], [])] == [kettle]
    whole = refund(bought, everything(bought), [])
    assert whole.shipping_minor == carriage
    assert whole.amount.minor == worth(bought)


@pytest.mark.parametrize(
    ("paid", "off", "odd"), [("9.990", "2.120", False), ("9.991", "2.119", True)]
)
def test_what_cards_cannot_give_back_is_no_share_of_a_card_payment(
    paid: str, off: str, odd: bool
) -> None:
    """Stripe has no dinars whose third decimal is not 0; a bank has."""
    tea = {"item_id": "T", "name": "Tea", "quantity": 3, "unit_price": "2.370"}
    pot = {"item_id": "P", "name": "Pot", "quantity": 1, "unit_price": "4.000"}
    payment = {"payment_id": "p", "method": "card", "amount": paid}
    dinars: dict[str, Any] = {"currency": "KWD", "items": [tea, pot], "shipping": "1.000"}
    bought = order(**dinars, discount=off, payments=[payment])
    refunds: list[Refund] = []
    for want in (WantedItem("T", 1), WantedItem("P"), WantedItem("T")):
        refunds.append(refund(bought, [want], refunds))
    given = [each.amount.minor for each in refunds]
    assert sum(given) == bought.paid.minor
    assert any(each % 10 for each in given) is odd


def test_carriage_goes_back_once_with_the_last_unit() -> None:
    bought = shop_order()
    first = replace(refund(bought, [WantedItem("M")], []), status=PAID)
    last = refund(bought, [WantedItem("K")], [first])
    assert (first.shipping_minor, last.shipping_minor) == (0, 5_00)
    again = refund(bought, [WantedItem("K")], [first, replace(last, status=REJECTED)])
    assert again.shipping_minor == 5_00
    # The first is asked for anew after it was rejected: the carriage went with the other one.
    late = refund(bought, [WantedItem("M")], [replace(first, status=REJECTED), last])
    assert (late.shipping_minor, late.amount.minor) == (0, first.amount.minor)


def test_units_freed_by_late_rejections_lose_no_cent() -> None:
    """Fourteen cents for four: worth 3, 4, 3 and 4 in turn, and the two that cost less are paid."""
    four = {"item_id": "S", "name": "Sticker", "quantity": 4, "unit_price": "0.04"}
    bought = order(items=[four], **paying("0.14"))
    refunds: list[Refund] = []
    for _ in range(4):
        refunds.append(refund(bought, [WantedItem("S", 1)], refunds))
    assert [each.amount.minor for each in refunds] == [3, 4, 3, 4]
    decided = [
        replace(each, status=status)
        for each, status in zip(refunds, [PAID, REJECTED, PAID, REJECTED], strict=True)
    ]
    assert refund(bought, [WantedItem("S", 2)], decided).amount.minor == 8


def test_a_manager_s_lower_amount_is_not_made_up_for_by_the_next_units() -> None:
    bought = shop_order()
    first = refund(bought, [WantedItem("M", 1)], [])
    lowered = replace(first, amount=Money(1_00, "USD"), status=PAID)
    assert refund(bought, [WantedItem("M", 1)], [lowered]).amount.minor == 7_94


# --- fewer units, and the rest of an amount -------------------------------------------------------


def test_fewer_units_are_worth_less_and_leave_the_others_for_later() -> None:
    bought = shop_order()
    whole = refund(bought, [WantedItem("M", 2)], [])
    one = whole.covering({whole.lines[0].line_no: 1})
    assert (one.lines[0].quantity, one.asked, one.whole) == (1, whole.asked, whole)
    later = refund(bought, [WantedItem("M", 1)], [replace(one, status=PAID)])
    assert one.amount.minor + later.amount.minor == whole.amount.minor
    assert not later.lines[0].is_rest


def test_shipping_goes_back_with_all_units_only() -> None:
    bought = shop_order()
    whole = refund(bought, [WantedItem("M", 2)], [])
    whole = replace(whole, shipping_minor=500, amount=Money(whole.amount.minor + 500, "USD"))
    assert whole.covering({whole.lines[0].line_no: 2}) == whole
    assert whole.covering({whole.lines[0].line_no: 1}).shipping is None


@given(st.integers(1, 10_000), st.integers(1, 9), st.data())
def test_counting_down_twice_is_counting_down_once(
    minor: int, units: int, data: st.DataObject
) -> None:
    bought = shop_order()
    line = RefundLine(1, units, Money(minor, "USD"))
    whole = replace(refund(bought, [WantedItem("M", 1)], []), lines=(line,), amount=line.amount)
    first = data.draw(st.integers(1, units))
    second = data.draw(st.integers(0, first))
    twice = whole.covering({1: first}).covering({1: second})
    once = whole.covering({1: second})
    assert (twice.lines, twice.item_ids) == (once.lines, once.item_ids)
    assert twice.amount <= once.amount


def test_what_a_manager_took_off_is_left_once_and_no_more() -> None:
    bought = shop_order()
    everything = [WantedItem("M")]
    first = refund(bought, everything, [])
    lowered = replace(first, amount=Money(first.amount.minor - 3_00, "USD"), status=PAID)
    rest = refund(bought, everything, [lowered])
    assert rest.amount.minor == 3_00
    assert all(line.is_rest for line in rest.lines)
    for status in (PAID, RefundStatus.APPROVED, RefundStatus.AWAITING_APPROVAL):
        assert price_lines(bought, everything, [lowered, replace(rest, status=status)]) == ()
    again = refund(bought, everything, [lowered, replace(rest, status=REJECTED)])
    assert again.amount.minor == 3_00
    half = replace(rest, amount=Money(1_00, "USD"), status=PAID)
    assert refund(bought, everything, [lowered, half]).amount.minor == 2_00


@pytest.mark.parametrize("status", [RefundStatus.WITHDRAWN, RefundStatus.FAILED])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_rest_that_was_given_is_not_given_again_when_its_first_refund_ends_unpaid(
    status: RefundStatus, at_once: bool
) -> None:
    bought = shop_order()
    first = refund(bought, [WantedItem("M")], [])
    lowered = replace(first, amount=Money(first.amount.minor - 3_00, "USD"), status=PAID)
    refunds = [lowered, replace(refund(bought, [WantedItem("M")], [lowered]), status=PAID)]
    refunds[0] = replace(lowered, status=status)
    for units in [2] if at_once else [1, 1]:
        refunds.append(replace(refund(bought, [WantedItem("M", units)], refunds), status=PAID))
    assert sum(each.held.minor for each in refunds) == first.amount.minor


@pytest.mark.parametrize("status", [RefundStatus.AWAITING_APPROVAL, RefundStatus.FAILED])
def test_nothing_is_left_of_a_refund_that_is_not_approved_and_holds_its_units(
    status: RefundStatus,
) -> None:
    bought = shop_order()
    first = refund(bought, [WantedItem("M")], [])
    part = Money(1_00, "USD")
    held = replace(first, amount=part, status=status, part_paid=part)
    assert price_lines(bought, [WantedItem("M")], [held]) == ()
