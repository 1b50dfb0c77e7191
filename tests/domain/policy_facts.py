"""The facts of a refund that the policy approves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mailagent.domain.deadline import end_of_day
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.policy_rules import Granted, LineFacts, RefundFacts
from mailagent.domain.refunds.refund import RefundReason
from tests.cast import NOW

DELIVERED = NOW - timedelta(days=10)
KETTLE = LineFacts("K1")


def facts(
    amount: int = 50_00,
    remaining: int = 5_000_00,
    unasked: int = 0,
    status: OrderStatus = OrderStatus.DELIVERED,
    delivered_at: datetime | None = DELIVERED,
    currency: str = "USD",
    **changes: Any,
) -> RefundFacts:
    values: dict[str, Any] = {
        "amount": Money(amount, currency),
        "remaining": Money(remaining, currency),
        "granted_unasked": Granted(1 if unasked else 0, unasked),
        "order_status": status,
        "delivered_at": delivered_at,
        "reason": RefundReason.DAMAGED,
        "refused_before": (),
        "shared_payments": (),
        "lines": (KETTLE,),
        "methods": ("card",),
        "photos": 0,
        "charged_back": Money(0, currency),
        "of_customer": None,
        "of_day": None,
        "seen_by_one": Money(0, currency),
    }
    return RefundFacts(**(values | changes))


SECOND = timedelta(seconds=1)
YESTERDAY = end_of_day(NOW - timedelta(days=1))
