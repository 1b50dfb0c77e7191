"""Which earlier refunds cover what a new one had to leave out."""

from __future__ import annotations

import pytest

from mailagent.domain.money import Money
from mailagent.domain.refunds.duplicates import find_covering, find_holding
from mailagent.domain.refunds.refund import (
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    WantedItem,
)
from tests.cast import NOW, order

MUGS = order(
    items=[
        {"item_id": "M", "name": "Mug", "quantity": 3, "unit_price": "10.00"},
        {"item_id": "K", "name": "Kettle", "quantity": 1, "unit_price": "19.99"},
    ]
)


def refund(refund_id: str, status: RefundStatus, **units: int) -> Refund:
    numbers = {"M": 1, "K": 2}
    lines = tuple(RefundLine(numbers[item], n, Money(n, "USD")) for item, n in units.items())
    return Refund(
        refund_id=refund_id,
        order_id="W1001",
        conversation_id="c",
        mail_id="m",
        amount=Money(10, "USD"),
        lines=lines,
        item_ids=tuple(units),
        reason=RefundReason.OTHER,
        status=status,
        requested_at=NOW,
    )


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
    earlier = [
        refund("r0", RefundStatus.REJECTED, M=3, K=1),
        refund("r1", RefundStatus.PAID, M=1),
        refund("r2", RefundStatus.AWAITING_APPROVAL, K=1),
    ]
    new = refund("r3", RefundStatus.APPROVED, **got)
    found = find_covering(MUGS, wanted, new, [*earlier, new])
    assert [each.refund_id for each in found] == covering


@pytest.mark.parametrize(
    ("item_ids", "holding"),
    [(["M"], ["r1"]), (["K"], ["r2"]), (["K", "M"], ["r1", "r2"]), ([], [])],
)
def test_only_what_holds_units_of_the_same_items_is_found(
    item_ids: list[str], holding: list[str]
) -> None:
    earlier = [
        refund("r0", RefundStatus.REJECTED, M=3, K=1),
        refund("r1", RefundStatus.PAID, M=1),
        refund("r2", RefundStatus.AWAITING_APPROVAL, K=1),
        refund("r3", RefundStatus.WITHDRAWN, M=1),
    ]
    assert [each.refund_id for each in find_holding(item_ids, earlier)] == holding
