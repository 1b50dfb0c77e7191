"""What the model may cost in a day, in US dollars. Days are those of UTC. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

_AMOUNT = re.compile(r"[0-9]{1,7}(\.[0-9]{1,2})?")

ALARM_PERCENT = 80


@dataclass(frozen=True, slots=True)
class DailyBudget:
    """`usd`: at so much no further mail is begun that day; `alarm_percent`: of it, operators are told."""

    usd: Decimal
    alarm_percent: int = ALARM_PERCENT

    def is_near(self, cost: Decimal) -> bool:
        return cost * 100 >= self.usd * self.alarm_percent

    def is_spent(self, cost: Decimal) -> bool:
        return cost >= self.usd


def parse_amount(text: str) -> Decimal:
    """Return an amount of US dollars. Raises ValueError."""
    if not _AMOUNT.fullmatch(text) or not Decimal(text):
        raise ValueError(f"{text[:40]!r} is no amount in USD, more than nothing; write 25 or 12.50")
    return Decimal(text)


def day_begins_at(now: datetime) -> datetime:
    """Return when the day of `now` began."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
