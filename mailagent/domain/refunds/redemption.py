"""Using a goodwill code: what comes of it, and how that is said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mailagent.domain.refunds.goodwill import GoodwillCode


class Redeemed(StrEnum):
    NOW = "now"
    BEFORE_ON_SAME = "before, on the same order"
    BEFORE_ON_OTHER = "before, on another order"
    TOO_LATE = "too late"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Redemption:
    """What came of using a code, with the code as it is now; None if there is no such code."""

    outcome: Redeemed
    code: GoodwillCode | None = None

    @property
    def words(self) -> str:
        """Why it was not used, in a sentence; empty if it was."""
        code = self.code
        if self.outcome is Redeemed.UNKNOWN or code is None:
            return "there is no such code"
        if self.outcome is Redeemed.TOO_LATE:
            return f"the code {code.code} expired on {_day(code.expires_at)}"
        if self.outcome is Redeemed.BEFORE_ON_OTHER:
            used_at = _day(code.used_at) if code.used_at else ""
            return f"the code {code.code} was used on {used_at}, on order {code.used_on}"
        return ""


def decide_redemption(code: GoodwillCode | None, order_id: str, now: datetime) -> Redemption:
    """Decide whether a code can be used on an order. The same order again is no second use."""
    if code is None:
        return Redemption(Redeemed.UNKNOWN)
    if code.used_on is not None:
        same = code.used_on == order_id
        return Redemption(Redeemed.BEFORE_ON_SAME if same else Redeemed.BEFORE_ON_OTHER, code)
    return Redemption(Redeemed.NOW if code.is_good(now) else Redeemed.TOO_LATE, code)


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
