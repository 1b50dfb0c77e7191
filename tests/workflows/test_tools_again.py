"""What is asked for again, or in contradiction to itself, is not paid again: the rows answer, or a manager."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.domain.refunds.policy import ManagerReason
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import MONA, order
from tests.harness import Harness, post_form
from tests.tool_use import use
from tests.workflows.camera import batch_of, later_batch, page_of, propose, reject

MUG, POT, LAMP = "M", "P", "L"


def table(**changes: Any) -> Any:
    """Three mugs and a pot, cheap, and three lamps that are dear together."""
    items = [
        {"item_id": MUG, "name": "Mug", "quantity": 3, "unit_price": "10.01"},
        {"item_id": POT, "name": "Pot", "quantity": 1, "unit_price": "19.97"},
        {"item_id": LAMP, "name": "Lamp", "quantity": 3, "unit_price": "450.00"},
    ]
    paid = {"payment_id": "p", "method": "card", "amount": "1400.00"}
    return order("W1010", **({"items": items, "payments": [paid]} | changes))


def amounts(shop: Harness) -> list[str]:
    return [str(refund.amount) for refund in shop.refunds()]


def test_a_second_mail_for_one_of_three_mugs_is_a_managers_who_sees_the_first(
    shop: Harness,
) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    assert propose(batch, (MUG, 1))["outcome"] == "approved"
    later = later_batch(shop, batch)
    told = propose(later, (MUG, 1))
    assert told["outcome"] == "needs_manager"
    (before,) = told["same_items_before"]
    assert before == {
        "items": ["Mug"],
        "quantities": {MUG: 1},
        "amount": "10.01 USD",
        "status": "approved",
    }
    assert shop.refunds()[-1].policy_reasons == (ManagerReason.ITEM_AGAIN.value,)
    page = page_of(shop)
    assert "perhaps the customer is only asking once more" in page
    assert "Earlier refunds of this order and customer" in page
    assert 'approved, not yet paid</span> <span class="amount">$10.01' in page
    again = propose(later_batch(shop, later), (MUG, 1))
    assert (again["outcome"], again["status"]) == ("already_requested", "awaiting_approval")
    assert amounts(shop) == ["10.01 USD"] * 2


def test_what_a_newer_mail_left_out_is_a_managers_when_an_older_one_is_replayed(
    shop: Harness,
) -> None:
    shop.stock(table())
    older, newer = batch_of(shop, subject="One"), batch_of(shop, subject="Two")
    assert propose(newer, (MUG, 1))["outcome"] == "approved"
    assert propose(older, (POT, 1))["outcome"] == "needs_manager"
    assert shop.refunds()[-1].policy_reasons == (ManagerReason.WITHDRAWN_LATER.value,)
    assert "or asks for something else on the order" in page_of(shop)


def test_the_other_two_are_still_given_back_by_a_manager_in_one_answer(shop: Harness) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    propose(batch, (MUG, 1))
    told = propose(later_batch(shop, batch), (MUG, 2), (POT, 1))
    assert (told["outcome"], told["amount"]) == ("needs_manager", "39.99 USD")
    assert len(shop.refunds()) == 2


@pytest.mark.parametrize(
    "then",
    [[(MUG, 2)], [(MUG, None)], [(MUG, 1), (POT, 1)], [(MUG, 3), (POT, None)]],
    ids=["more", "all", "with another", "all of both"],
)
def test_in_answer_to_one_mail_an_item_is_asked_for_once(
    shop: Harness, then: list[tuple[str, int | None]]
) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    propose(batch, (MUG, 1))
    told = propose(batch, *then)
    assert (told["outcome"], told["quantities"]) == ("already_requested", {MUG: 1})
    assert propose(batch, (POT, 1))["outcome"] == "approved"
    assert amounts(shop) == ["10.01 USD", "19.97 USD"]


def test_another_reason_for_the_same_units_is_the_same_refund(shop: Harness) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    items = [{"item_id": MUG, "quantity": 1}]
    for reason in ("damaged", "changed_mind"):
        wish = {"order_id": "W1010", "items": items, "reason": reason}
        assert use(propose_refund, batch, wish)["outcome"] == "approved"
    assert amounts(shop) == ["10.01 USD"]


@pytest.mark.parametrize("here", [True, False], ids=["same thread", "other thread"])
def test_a_nudge_while_the_first_waits_asks_no_manager_twice(shop: Harness, here: bool) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    propose(batch, (LAMP, None))
    reject(shop)
    second = later_batch(shop, batch)
    assert propose(second, (LAMP, 2))["outcome"] == "needs_manager"
    later = later_batch(shop, second) if here else batch_of(shop, "My lamps")
    for quantity in (1, 2, 3, None):
        told = propose(later, (LAMP, quantity))
        assert (told["outcome"], told["quantities"]) == ("already_requested", {LAMP: 2})
    assert propose(later, (POT, 1))["outcome"] == "approved"
    states = [refund.status for refund in shop.refunds()]
    waits = RefundStatus.AWAITING_APPROVAL
    assert states == [RefundStatus.REJECTED, waits, RefundStatus.APPROVED]


def test_another_reason_after_a_rejection_is_for_a_person(shop: Harness) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    propose(batch, (LAMP, None))
    reject(shop)
    lamps = [{"item_id": LAMP, "quantity": None}]
    wish = {"order_id": "W1010", "items": lamps, "reason": "damaged"}
    told = use(propose_refund, later_batch(shop, batch), wish)
    assert (told["outcome"], told["status"]) == ("already_requested", "rejected")
    assert "If they add a reason, a photo or what was overlooked, call hand_over" in told["say"]
    assert [refund.status for refund in shop.refunds()] == [RefundStatus.REJECTED]


# --- cancelled orders, and what is left of others ------------------------------------------------


def kettle(status: str, refunded: str = "0.00", **changes: Any) -> Any:
    items = [
        {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "30.00"},
        {"item_id": "C1", "name": "Cup", "quantity": 2, "unit_price": "10.00", "final_sale": True},
    ]
    paid = {"payment_id": "p", "method": "card", "amount": "53.60", "refunded": refunded}
    record = {"items": items, "payments": [paid], "shipping": "3.60", "status": status}
    return order("W1010", **(record | changes))


ALL = (("K1", None), ("C1", None))


@pytest.mark.parametrize("delivered_at", [None, "2020-01-01T00:00:00Z"])
def test_what_the_shop_still_holds_of_a_cancelled_order_goes_to_a_person(
    shop: Harness, delivered_at: str | None
) -> None:
    placed_at = "2019-12-30T00:00:00Z"
    shop.stock(kettle("cancelled", delivered_at=delivered_at, placed_at=placed_at))
    told = propose(batch_of(shop), *ALL)
    assert (told["outcome"], told["amount"]) == ("needs_manager", "53.60 USD")
    assert shop.refunds()[0].policy_reasons == (ManagerReason.CANCELLED.value,)
    assert "$53.60 of its payment was not refunded" in page_of(shop)


def test_a_cancelled_order_of_which_nothing_is_left_says_so(shop: Harness) -> None:
    shop.stock(kettle("cancelled", "53.60"))
    told = propose(batch_of(shop), *ALL)
    assert told["reason"] == "order_cancelled"
    assert "nothing is left of what was paid" in told["say"]


def test_a_remainder_is_a_managers_and_never_declined(shop: Harness) -> None:
    items = [
        {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "30.00"},
        {"item_id": "C1", "name": "Cup", "quantity": 2, "unit_price": "10.00"},
    ]
    shop.stock(kettle("delivered", "10.00", items=items))
    told = propose(batch_of(shop), *ALL)
    assert (told["outcome"], told["amount"]) == ("needs_manager", "43.60 USD")
    (refund,) = shop.refunds()
    assert (refund.worth.minor, refund.asked.minor, refund.short_minor) == (53_60, 43_60, 10_00)
    assert refund.policy_reasons == (ManagerReason.REMAINDER.value,)
    page = page_of(shop)
    assert "Refund $43.60?" in page
    assert (
        '<span>Less what is not left of what was paid</span> <span class="amount">−$10.00' in page
    )


def test_what_a_manager_left_out_is_not_paid_when_it_is_asked_for_by_itself(shop: Harness) -> None:
    shop.stock(table())
    batch = batch_of(shop)
    assert propose(batch, (LAMP, 3), (POT, 1))["outcome"] == "needs_manager"
    (refund,) = shop.refunds()
    pot = next(
        line.line_no
        for line, item_id in zip(refund.lines, refund.item_ids, strict=True)
        if item_id == POT
    )
    (approval,) = shop.rows("SELECT approval_id FROM approvals")
    link = shop.live.links.sign_approval(approval.approval_id, MONA)
    path = link.replace(shop.live.shop.public_url, "")
    answer = post_form(shop.client, path, decision="approve", **{f"quantity_{pot}": "0"})
    assert answer.status_code == 200
    assert [(each.status, each.item_ids) for each in shop.refunds()] == [("approved", (LAMP,))]
    told = propose(later_batch(shop, batch), (POT, 1))
    assert told["outcome"] == "needs_manager"
    assert ManagerReason.LEFT_OUT.value in shop.refunds()[-1].policy_reasons
