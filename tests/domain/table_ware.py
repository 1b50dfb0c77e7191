"""An order of pots and mugs, in units of which refunds are asked."""

from __future__ import annotations

from dataclasses import replace

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import (
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
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


def usd(minor: int) -> Money:
    return Money(minor, "USD")


ITEMS = {1: "M", 2: "P", 3: "M"}
REJECTED, EXPIRED, PAID = RefundStatus.REJECTED, RefundStatus.EXPIRED, RefundStatus.PAID


def asked(*units: tuple[int, int], status: RefundStatus = REJECTED) -> Refund:
    """An earlier refund of so many units of these lines."""
    lines = tuple(RefundLine(line_no, quantity, usd(1)) for line_no, quantity in units)
    items = tuple(ITEMS[line_no] for line_no, _ in units)
    return replace(earlier(*lines, status=status), item_ids=items)
