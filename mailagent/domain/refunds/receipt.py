"""When a paid refund is told of: together with others that the same mail led to, if they come soon. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mailagent.domain.refunds.refund import Refund, RefundStatus

# After so long a receipt waits for no other refund: that one gets a receipt of its own.
WAITS_FOR_OTHERS = timedelta(minutes=2)
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 15.0


def seconds_to_wait(
    paid_at: datetime, others: Iterable[Refund], is_answering: bool, now: datetime
) -> float:
    """Return how long the receipt of a refund waits before it is looked again whether it may be written; 0 if
    it is written now.

    `others`: the refunds that the same mail led to; what still waits for a manager is not waited for.
    `is_answering`: the agent is still at that mail, and may ask for more.
    """
    under_way = any(other.status is RefundStatus.APPROVED for other in others)
    age = now - paid_at
    if not (under_way or is_answering) or age >= WAITS_FOR_OTHERS:
        return 0.0
    return min(max(age.total_seconds(), FIRST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
