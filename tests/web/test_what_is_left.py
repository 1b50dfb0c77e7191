"""What happened to an order while its refund waited: the manager reads it, and cannot approve above it."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.domain.money import Money
from mailagent.domain.operations.run_about import hash_customer
from mailagent.domain.refunds.payment import GatewayRefund, RefundState
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.refunds import external_refunds
from tests.cast import order
from tests.web.questions import Question, refund_elsewhere


def page(question: Question) -> str:
    return question.shop.client.get(question.link()).text


def test_money_given_back_elsewhere_lowers_what_may_be_approved(question: Question) -> None:
    assert "What has happened since" not in page(question)
    refund_elsewhere(question, 500_00)
    shown = page(question)
    assert "$500.00 of this order was refunded elsewhere" in shown
    assert 'value="999.00"' in shown
    assert "<dt>Already refunded or under way</dt><dd>$500.00</dd>" in shown
    assert "$999.00 is left to approve." in shown
    refused = question.decide()
    assert refused.status_code == 422
    assert "At most $999.00 is left" in refused.text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.decide(form={"amount": "999.01"}).status_code == 422
    assert question.decide(form={"amount": "999.00"}).status_code == 200
    refund = question.refund()
    assert (refund.status, refund.amount) == (RefundStatus.APPROVED, Money(999_00, "USD"))


@pytest.mark.both_databases
def test_a_refund_elsewhere_since_the_page_was_opened_has_the_manager_look_again(
    question: Question,
) -> None:
    opened, half = question.token(), {"amount": "500.00"}
    refund_elsewhere(question, 400_00)
    late = question.press(opened, "approve", form=half)
    assert late.status_code == 422
    assert "Something has happened while this page was open." in late.text
    assert "$400.00 of this order was refunded elsewhere" in late.text
    assert 'name="refunded_elsewhere" value="40000"' in late.text
    for known in ("39999", "-1", "none"):
        told = {"refunded_elsewhere": known}
        assert question.press(opened, "approve", form=half | told).status_code == 422
    assert question.shop.rows("SELECT 1 FROM decisions") == []
    # What comes back to the shop later makes no decision stale.
    with question.shop.live.database.transaction() as connection:
        external_refunds.mark_returned(connection, "re_9", question.shop.live.now())
    told = {"refunded_elsewhere": "40000"}
    assert question.press(opened, "approve", form=half | told).status_code == 200
    assert question.refund().status is RefundStatus.APPROVED


def test_a_rejection_needs_no_word_of_a_refund_elsewhere(question: Question) -> None:
    opened = question.token()
    refund_elsewhere(question, 400_00)
    assert question.press(opened, "reject").status_code == 200
    assert question.refund().status is RefundStatus.REJECTED


def test_what_another_order_gave_back_of_the_same_payment_cannot_be_approved_again(
    question: Question,
) -> None:
    shared = {"payment_id": "pay_W2001", "method": "card", "amount": "49.99"}
    question.shop.stock(order("W1", payments=[shared]))
    told = GatewayRefund("re_9", "stripe", ("pay_W2001",), Money(49_99, "USD"), RefundState.SETTLED)
    with question.shop.live.database.transaction() as connection:
        external_refunds.record(connection, told, "W1", "pay_W2001", question.shop.live.now())
    assert "$49.99 of its payments was refunded on another order" in page(question)
    assert "At most $1,449.01 is left" in question.decide().text
    assert question.decide(form={"amount": "1449.01"}).status_code == 200


def test_an_order_cancelled_meanwhile_may_be_approved_by_whoever_was_told_so(
    question: Question,
) -> None:
    opened = question.token()
    question.shop.stock(order("W2001", items=[DESK], payments=[CARD], status="cancelled"))
    late = question.press(opened, "approve")
    assert late.status_code == 422
    for words in ("while this page was open", "$1,499.00 of its payment was not refunded"):
        assert words in late.text
    assert "please look there first" in page(question)
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert 'name="order_status" value="cancelled"' in late.text
    assert question.press(opened, "approve", form={"order_status": "cancelled"}).status_code == 200
    refund = question.refund()
    assert (refund.status, refund.despite_cancel) == (RefundStatus.APPROVED, True)


def test_an_order_of_another_customer_by_now_may_be_approved_by_whoever_was_told_so(
    question: Question,
) -> None:
    opened = question.token()
    moved = {"email": "ada.new@example.org", "name": "Ada Example"}
    question.shop.stock(order("W2001", items=[DESK], payments=[CARD], customer=moved))
    late = question.press(opened, "approve")
    assert late.status_code == 422
    assert "customer is ada.new@example.org now; ada@example.com asked" in late.text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert 'name="order_customer" value="ada.new@example.org"' in late.text
    stale = {"order_customer": "ada.other@example.org"}
    assert question.press(opened, "approve", form=stale).status_code == 422
    told = {"order_customer": "ada.new@example.org"}
    assert question.press(opened, "approve", form=told).status_code == 200
    refund = question.refund()
    assert (refund.status, refund.approved_for) == (
        RefundStatus.APPROVED,
        hash_customer(told["order_customer"]),
    )


def test_a_rejection_needs_no_word_of_the_order_s_customer(question: Question) -> None:
    moved = {"email": "ada.new@example.org", "name": "Ada Example"}
    question.shop.stock(order("W2001", items=[DESK], payments=[CARD], customer=moved))
    assert question.decide("reject").status_code == 200


CARD = {"payment_id": "pay_W2001", "method": "card", "amount": "1499.00"}
DESK = {"item_id": "D1", "name": "Standing desk", "quantity": 1, "unit_price": "1499.00"}
CHARGED_BACK = CARD | {"charged_back_at": "2026-11-19T10:00:00Z"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"status": "cancelled", "payments": [CARD | {"refunded": "1499.00"}]},
            "This order was cancelled.",
        ),
        ({"payments": [CHARGED_BACK]}, "bank has taken back $1,499.00"),
        ({"status": "cancelled", "payments": [CHARGED_BACK]}, "bank has taken back $1,499.00"),
    ],
    ids=["cancelled and given back", "charged_back", "both"],
)
def test_where_nothing_is_left_it_can_only_be_rejected(
    question: Question, changes: dict[str, Any], words: str
) -> None:
    question.shop.stock(order("W2001", items=[DESK], **changes))
    assert words in page(question)
    refused = question.decide()
    assert refused.status_code == 422
    assert "cannot be approved" in refused.text
    assert question.decide("reject").status_code == 200
    assert question.refund().status is RefundStatus.REJECTED
