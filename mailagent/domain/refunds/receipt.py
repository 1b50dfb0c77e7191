"""How long a receipt waits for other refunds of the same mail."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mailagent.domain.refunds.refund import Refund, RefundStatus

WAITS_FOR_OTHERS = timedelta(minutes=2)
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 15.0


def seconds_to_wait(
    paid_at: datetime, others: Iterable[Refund], is_answering: bool, now: datetime
) -> float:
    """Return how long to wait before checking again whether to write a refund's receipt; 0 to write it now.

    `others` are the refunds that the same mail led to; a receipt does not wait for a manager.
    `is_answering`: the agent still works on that mail, and may propose another refund.
    """
    under_way = any(other.status is RefundStatus.APPROVED for other in others)
    age = now - paid_at
    if not (under_way or is_answering) or age >= WAITS_FOR_OTHERS:
        return 0.0
    return min(max(age.total_seconds(), FIRST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
