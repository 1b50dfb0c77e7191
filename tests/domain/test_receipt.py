"""Which refunds share a receipt, and how long it waits for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import Refund, RefundReason, RefundStatus, seconds_to_wait
from tests.cast import NOW

OTHER = Refund(
    refund_id="r2",
    order_id="W1002",
    conversation_id="c",
    mail_id="m",
    amount=Money(10, "USD"),
    lines=(),
    item_ids=(),
    reason=RefundReason.OTHER,
    status=RefundStatus.PAID,
    requested_at=NOW,
)
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
