"""When a payment is looked up before it is asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import imported_method, is_shops_own, method_labels
from mailagent.domain.refunds.payment import GatewayRefund, RefundState, may_have_been_asked
from mailagent.domain.refunds.receipt import seconds_to_wait
from mailagent.domain.refunds.reconciliation import Kind, OurPart, compare
from mailagent.domain.refunds.refund import RefundStatus
from tests.cast import NOW
from tests.domain.table_ware import earlier


@pytest.mark.parametrize(
    ("intended", "minutes", "looked_up"),
    [
        (False, 0, False),
        (False, 12 * 60 - 1, False),
        (False, 12 * 60, True),  # an earlier database may have asked, and its key may be forgotten
        (True, 0, True),
        (True, 12 * 60, True),
        (False, -60, False),  # a clock that jumped back
    ],
)
def test_what_may_have_been_asked_is_looked_up(
    intended: bool, minutes: int, looked_up: bool
) -> None:
    now = NOW + timedelta(minutes=minutes)
    assert may_have_been_asked(intended, NOW, now) is looked_up


# --- payment method -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exported", "ours"),
    [
        ("stripe", "card"),
        ("Shopify Payments", "card"),
        ("woocommerce payments", "card"),
        ("woocommerce_payments", "card"),
        ("bacs", "bank_transfer"),
        ("cod", "cash_on_delivery"),
        ("Cash on Delivery (COD)", "cash_on_delivery"),
        ("cheque", "cheque"),
        ("paypal", "paypal"),
        ("ppcp-gateway", "paypal"),
        ("shop_pay", "shop_pay"),
        ("manual", "manual"),
        ("Gift Card", "gift_card"),
        ("Shopify Payments + Gift Card", "card + gift_card"),
        ("gift_card+Twint  QR", "gift_card + Twint QR"),
        ("Twint_QR", "Twint_QR"),
        ("", "unknown"),
        (" + ", "unknown"),
    ],
)
def test_an_exports_method_becomes_our_word_where_it_is_known(exported: str, ours: str) -> None:
    assert imported_method(exported) == ours
    assert imported_method(ours) == ours


@pytest.mark.parametrize(
    ("method", "words"),
    [("Card + Gift-Card", ("card", "gift_card")), ("card + stripe", ("card",)), ("+", ())],
)
def test_a_payment_of_several_methods_has_the_word_of_each(
    method: str, words: tuple[str, ...]
) -> None:
    assert method_labels(method) == words


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("Gift Card", True),
        ("voucher + store_credit", True),
        ("card + gift_card", False),
        ("", False),
    ],
)
def test_no_bank_has_a_part_in_what_the_shop_keeps_itself(method: str, own: bool) -> None:
    assert is_shops_own(method) is own


# --- receipt --------------------------------------------------------------------------------------


OTHER = earlier()
WAITED_FOR = {RefundStatus.APPROVED}


@pytest.mark.parametrize("status", list(RefundStatus))
def test_a_receipt_waits_for_what_is_being_paid_and_not_for_what_a_manager_decides(
    status: RefundStatus,
) -> None:
    others = [OTHER, replace(OTHER, status=status)]
    assert (seconds_to_wait(NOW, others, False, NOW) > 0) is (status in WAITED_FOR)


@pytest.mark.parametrize(
    ("is_answering", "age", "seconds"),
    [
        (False, 0, 0),
        (True, 0, 1),
        (True, 0.5, 1),
        (True, 4, 4),
        (True, 16, 15),
        (True, 119, 15),
        (True, 120, 0),
        (True, -5, 1),  # by another clock
    ],
)
def test_a_receipt_waits_for_an_agent_that_may_ask_for_more(
    is_answering: bool, age: float, seconds: float
) -> None:
    assert seconds_to_wait(NOW, [], is_answering, NOW + timedelta(seconds=age)) == seconds


# --- reconcile ------------------------------------------------------------------------------------


PAYMENT = "pi_1"


def ours(state: str = "done", **changes: Any) -> OurPart:
    values: dict[str, Any] = {
        "refund_id": "refund_1",
        "order_id": "W1001",
        "amount": Money(2000, "USD"),
        "state": state,
        "key": "refund_1",
        "reference": None if state in ("asked", "refused") else "re_1",
    }
    return OurPart(**(values | changes))


def external(state: str = "done") -> OurPart:
    return ours(state, refund_id=None, key=None)


def theirs(state: RefundState = RefundState.SETTLED, **changes: Any) -> GatewayRefund:
    values: dict[str, Any] = {
        "reference": "re_1",
        "gateway": "stripe",
        "payment_ids": (PAYMENT,),
        "amount": Money(2000, "USD"),
        "state": state,
        "idempotency_key": "refund_1",
    }
    return GatewayRefund(**(values | changes))


SETTLED, PENDING, FAILED = RefundState.SETTLED, RefundState.PENDING, RefundState.FAILED


@pytest.mark.parametrize(
    ("here", "there", "kinds"),
    [
        ([], [], []),
        ([ours()], [theirs()], []),
        ([external()], [theirs(idempotency_key=None)], []),
        ([ours("returned")], [theirs(FAILED)], []),
        ([ours("refused")], [theirs(FAILED)], []),
        ([ours("refused")], [], []),
        ([], [theirs(FAILED)], []),
        ([external()], [theirs(PENDING, idempotency_key=None)], []),
        ([ours()], [], [Kind.UNKNOWN_THERE]),
        ([external()], [], [Kind.UNKNOWN_THERE]),
        ([], [theirs()], [Kind.UNKNOWN_HERE]),
        ([ours("refused")], [theirs()], [Kind.UNKNOWN_HERE]),
        ([ours("returned")], [theirs()], [Kind.UNKNOWN_HERE]),
        ([ours()], [theirs(), theirs(reference="re_2")], [Kind.UNKNOWN_HERE]),
        ([ours()], [theirs(amount=Money(1999, "USD"))], [Kind.AMOUNT]),
        ([ours()], [theirs(FAILED)], [Kind.FAILED_THERE]),
        ([external()], [theirs(FAILED)], [Kind.FAILED_THERE]),
        ([ours()], [theirs(PENDING)], [Kind.PENDING]),
        ([ours("asked")], [theirs()], [Kind.PENDING]),
        ([ours("asked")], [], [Kind.PENDING]),
        ([ours()], [theirs(FAILED, amount=Money(1, "USD"))], [Kind.AMOUNT, Kind.FAILED_THERE]),
        ([ours()], [theirs(FAILED, reference="re_0"), theirs()], []),
    ],
)
def test_each_difference_is_named_and_what_agrees_is_not(
    here: list[OurPart], there: list[GatewayRefund], kinds: list[Kind]
) -> None:
    assert [each.kind for each in compare(PAYMENT, here, there)] == kinds


@pytest.mark.parametrize(
    ("here", "there", "sentence"),
    [
        (
            [ours()],
            [],
            "refund refund_1 of 20.00 USD on payment pi_1 is paid here as re_1; the gateway has no such"
            " refund.",
        ),
        (
            [],
            [theirs()],
            "The gateway refunded 20.00 USD of payment pi_1 as re_1, which is settled; mailagent has no record"
            " of it.",
        ),
        (
            [ours()],
            [theirs(FAILED, why="lost_or_stolen_card")],
            "refund refund_1 of 20.00 USD on payment pi_1 failed at the gateway, which has it as re_1"
            " (lost_or_stolen_card).",
        ),
        (
            [external()],
            [theirs(amount=Money(1, "USD"))],
            "refund re_1 of 20.00 USD on payment pi_1, which was made elsewhere, has another amount at the"
            " gateway: 0.01 USD as re_1.",
        ),
        (
            [external()],
            [],
            "refund re_1 of 20.00 USD on payment pi_1, which was made elsewhere, is paid here; the"
            " gateway has no such refund.",
        ),
    ],
    ids=["missing there", "missing here", "failed", "amount", "elsewhere"],
)
def test_a_difference_is_a_sentence(
    here: list[OurPart], there: list[GatewayRefund], sentence: str
) -> None:
    assert [each.sentence for each in compare(PAYMENT, here, there)] == [sentence]
