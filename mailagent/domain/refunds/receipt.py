"""Decides how long a receipt waits for other refunds of the same mail, so that the customer gets one
receipt. It stands apart from the step that waits, because rules are pure and stand in `domain`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mailagent.domain.refunds.refund import Refund, RefundStatus

WAITS_FOR_OTHERS = timedelta(minutes=2)
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 15.0


def seconds_to_wait(
    paid_at: datetime, others: Iterable[Refund], is_answering: bool, now: datetime
) -> float:
    """Return how many seconds to wait before the next look at a receipt that is not written; 0 to write it now.

    `others`: the other refunds that the same mail asked for. A receipt waits for approved ones, not for those
    that await a manager. `is_answering`: the agent still works on that mail, and may propose another refund.
    """
    under_way = any(other.status is RefundStatus.APPROVED for other in others)
    age = now - paid_at
    if not (under_way or is_answering) or age >= WAITS_FOR_OTHERS:
        return 0.0
    return min(max(age.total_seconds(), FIRST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
