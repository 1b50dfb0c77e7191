"""Two sets of books, compared: what agrees is not mentioned, and each difference is named once."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState
from mailagent.domain.refunds.reconciliation import Kind, OurPart, compare

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
