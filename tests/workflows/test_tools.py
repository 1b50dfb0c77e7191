"""What the model may propose: what was refused comes back to a manager, whatever shape it takes."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.policy import ManagerReason
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.refunds import refund_payments, refunds
from mailagent.workflows.tools.look_at_order import look_at_order
from tests.cast import GRACE, MONA, order
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows import proposals
from tests.workflows.camera import (
    BOTH,
    CAMERA,
    LENS,
    STRAPS,
    answer,
    batch_of,
    camera_order,
    end,
    later_batch,
    page_of,
    propose,
    reject,
)


@pytest.mark.parametrize("part", [CAMERA, LENS])
def test_what_a_manager_rejected_is_not_paid_when_it_is_asked_for_in_part(
    shop: Harness, part: str
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    assert propose(batch, *BOTH)["outcome"] == "needs_manager"
    reject(shop)
    told = propose(later_batch(shop, batch), (part, None))
    assert told["outcome"] == "needs_manager"
    refund = shop.refunds()[-1]
    assert refund.policy_reasons == (ManagerReason.REJECTED_BEFORE.value,)
    assert refund.decided_by is None
    assert "A refund of some of the same items was rejected before." in page_of(shop)


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (RefundStatus.REJECTED, "needs_manager"),
        (RefundStatus.EXPIRED, "needs_manager"),
        (RefundStatus.WITHDRAWN, "approved"),
        (RefundStatus.FAILED, "approved"),
    ],
)
def test_only_a_refusal_is_remembered_against_a_part(
    shop: Harness, ended: RefundStatus, outcome: str
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    end(shop, ended)
    assert propose(later_batch(shop, batch), (CAMERA, 1))["outcome"] == outcome


@pytest.mark.parametrize("ended", [RefundStatus.REJECTED, RefundStatus.EXPIRED])
def test_the_same_again_in_one_conversation_asks_nobody_again(
    shop: Harness, ended: RefundStatus
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    end(shop, ended)
    told = propose(later_batch(shop, batch), (LENS, 1), (CAMERA, 1))
    assert (told["outcome"], told["status"]) == ("already_requested", ended.value)
    assert len(shop.refunds()) == 1


def test_the_same_again_in_a_new_conversation_is_a_managers(shop: Harness) -> None:
    shop.stock(camera_order())
    propose(batch_of(shop), *BOTH)
    reject(shop)
    assert propose(batch_of(shop, "Another try"), *BOTH)["outcome"] == "needs_manager"
    assert len(shop.refunds()) == 2


def test_two_refusals_are_both_remembered(shop: Harness) -> None:
    shop.stock(camera_order())
    first = batch_of(shop)
    propose(first, *BOTH)
    reject(shop)
    second = later_batch(shop, first)
    propose(second, (CAMERA, None))
    reject(shop)
    third = later_batch(shop, second)
    assert propose(third, *BOTH)["status"] == "rejected"
    assert propose(third, (CAMERA, 1))["status"] == "rejected"
    assert propose(third, (LENS, 1))["outcome"] == "needs_manager"


@pytest.mark.parametrize("quantity", [1, 10, None])
def test_all_that_was_refused_is_a_managers_in_any_number(
    shop: Harness, quantity: int | None
) -> None:
    shop.stock(camera_order())
    propose(batch_of(shop), (STRAPS, None))
    reject(shop)
    assert propose(batch_of(shop, "Straps"), (STRAPS, quantity))["outcome"] == "needs_manager"


def test_units_of_an_item_of_which_some_were_refused_are_for_a_manager(shop: Harness) -> None:
    items = [{"item_id": STRAPS, "name": "Strap", "quantity": 12, "unit_price": "110.00"}]
    paid = {"payment_id": "pay_W1010", "method": "card", "amount": "1320.00"}
    shop.stock(camera_order(items=items, payments=[paid]))
    propose(batch_of(shop), (STRAPS, 10))
    reject(shop)
    assert propose(batch_of(shop, "Two others"), (STRAPS, 2))["outcome"] == "needs_manager"


def test_moving_the_lines_of_an_order_does_not_wash_a_refusal_off(shop: Harness) -> None:
    shop.stock(camera_order())
    propose(batch_of(shop), *BOTH)
    reject(shop)
    items = [
        {"item_id": STRAPS, "name": "Strap", "quantity": 10, "unit_price": "110.00"},
        {"item_id": LENS, "name": "Lens", "quantity": 1, "unit_price": "480.00"},
        {"item_id": "X", "name": "Bag", "quantity": 1, "unit_price": "0.00"},
        {"item_id": CAMERA, "name": "Camera", "quantity": 1, "unit_price": "640.00"},
    ]
    shop.stock(camera_order(items=items))
    assert propose(batch_of(shop, "Camera"), (CAMERA, 1))["outcome"] == "needs_manager"


def test_the_facts_of_a_decision_say_that_it_was_refused_before(shop: Harness) -> None:
    shop.stock(camera_order())
    propose(batch_of(shop), *BOTH)
    reject(shop)
    propose(batch_of(shop, "Camera"), (CAMERA, 1))
    with shop.live.database.snapshot() as connection:
        facts = connection.scalars(
            sa.select(schema.refunds.c.policy_facts).order_by(schema.refunds.c.refund_id)
        ).all()
    assert [each["refused_before"] for each in facts] == [[], ["rejected_before"]]


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        (None, {"outcome": "needs_manager", "amount": "880.00 USD"}),
        (1, {"outcome": "needs_manager", "amount": "110.00 USD"}),
        (8, {"outcome": "needs_manager", "amount": "880.00 USD"}),
        (9, {"outcome": "needs_manager", "amount": "880.00 USD"}),
        (10, {"outcome": "needs_manager", "amount": "880.00 USD"}),
        (0, {"error": "bad_arguments"}),
        (-1, {"error": "bad_arguments"}),
        (11, {"error": "bad_arguments"}),
        (10**30, {"error": "bad_arguments"}),
    ],
)
def test_never_more_units_than_are_left(
    shop: Harness, quantity: int | None, expected: dict[str, str]
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, (STRAPS, 2))
    told = propose(later_batch(shop, batch), (STRAPS, quantity))
    assert told | expected == told
    assert sum(refund.lines[0].quantity for refund in shop.refunds()) <= 10


def test_what_a_manager_took_off_is_left_and_only_a_manager_gives_it(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    refund = shop.refunds()[0]
    taken_off = refund.lines[0].amount
    with shop.live.database.transaction() as connection:
        refunds.lower(connection, refund, refund.amount - taken_off, {})
        refunds.move(connection, refund, RefundStatus.APPROVED, decided_by=MONA)
    told = propose(later_batch(shop, batch), *BOTH)
    assert (told["outcome"], told["amount"]) == ("needs_manager", str(taken_off))
    assert all(line.is_rest for line in shop.refunds()[1].lines)
    for items in (((CAMERA, 1),), ((LENS, None),)):
        assert propose(later_batch(shop, batch), *items)["outcome"] == "already_requested"


def test_units_that_a_manager_left_out_can_be_asked_for_again(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    refund = shop.refunds()[0]
    less = refund.covering({refund.lines[0].line_no: 0})
    with shop.live.database.transaction() as connection:
        refunds.lower(connection, refund, less.amount, {refund.lines[0].line_no: 0})
        refunds.move(connection, refund, RefundStatus.APPROVED, decided_by=MONA)
    approved = shop.refunds()[0]
    assert (approved.lines, approved.amount, approved.asked) == (
        less.lines,
        less.amount,
        refund.asked,
    )
    told = propose(later_batch(shop, batch), *BOTH)
    assert told["amount"] == str(refund.lines[0].amount)
    assert not shop.refunds()[1].lines[0].is_rest


# --- replays ------------------------------------------------------------------------------------


def test_a_replay_that_comes_late_proposes_nothing_new(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, (CAMERA, 1))
    answer(shop, batch)
    assert propose(batch, (LENS, 1))["error"] == "case_closed"
    assert propose(batch, (CAMERA, 1))["outcome"] == "approved"  # as it was told before
    assert len(shop.refunds()) == 1


def test_a_batch_of_which_people_took_one_mail_proposes_nothing_new(shop: Harness) -> None:
    shop.stock(camera_order())
    first = shop.write("I want my money back for W1010.")
    batch = batch_of(shop, in_reply_to=first.message_id)
    assert len(batch["mail_ids"]) == 2
    answer(shop, batch)
    assert propose(batch, (LENS, 1))["error"] == "case_closed"
    assert shop.refunds() == ()


def test_a_replay_does_not_call_approved_what_has_failed_since(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    assert propose(batch, (CAMERA, 1))["outcome"] == "approved"
    with shop.live.database.transaction() as connection:
        refunds.move(connection, shop.refunds()[0], RefundStatus.FAILED)
    told = propose(batch, (CAMERA, 1))
    assert (told["outcome"], told["status"]) == ("already_requested", "failed")
    assert "hand_over" in told["say"]


def test_what_failed_in_part_is_shown_as_given_back_and_is_not_proposed_again(
    shop: Harness,
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, (CAMERA, 1))
    refund = shop.refunds()[0]
    now, part = shop.live.now(), Money(40_00, "USD")
    with shop.live.database.transaction() as connection:
        refund_payments.intend_payment(connection, "key", refund.refund_id, "gift", part, now)
        refund_payments.record_payment(connection, "key", "done", reference="r")
        refunds.move(connection, refund, RefundStatus.FAILED)
    shown = use(look_at_order, batch, {"order_id": "W1010"})
    assert shown["refunded_or_under_way"] == "40.00 USD"
    assert [item["refundable"] for item in shown["items"]] == [0, 1, 10]
    told = propose(later_batch(shop, batch), (CAMERA, None))
    assert (told["outcome"], told["status"]) == ("already_requested", "failed")
    assert propose(later_batch(shop, batch), (LENS, None))["outcome"] == "approved"


@pytest.mark.parametrize(
    ("named", "written"), [("#1001", "1001"), ("1001", "#1001"), ("W1001", "w1001")]
)
def test_an_order_is_found_with_and_without_the_sign_before_its_number_and_in_small_letters(
    shop: Harness, named: str, written: str
) -> None:
    shop.stock(order(named))
    batch = batch_of(shop)
    assert use(look_at_order, batch, {"order_id": written})["order_id"] == named
    told = proposals.propose(batch, written)
    assert (told["outcome"], told["order_id"]) == ("approved", named)
    assert proposals.propose(batch, named) == told
    assert len(shop.refunds()) == 1


def test_the_order_of_exactly_that_name_comes_first_and_only_the_customers_own(
    shop: Harness,
) -> None:
    shop.stock(order("1001"), order("#1001"), order("1002", customer={"email": GRACE}))
    batch = batch_of(shop)
    for named in ("1001", "#1001"):
        assert use(look_at_order, batch, {"order_id": named})["order_id"] == named
        assert proposals.propose(batch, named)["order_id"] == named
    for others in ("1002", "#1002"):
        nothing = use(look_at_order, batch, {"order_id": "W9999"}) | {
            "facts": [f"no_order/{others}"]
        }
        assert (
            use(look_at_order, batch, {"order_id": others})
            == nothing
            == proposals.propose(batch, others)
        )
