"""Who decides on a refund: the shop's rules, as one pure function over facts from rows.

The amount, the remaining balance and every date are facts that code looked up; nothing here comes
from the model except the reason it picked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from mailagent.domain.money import Money
from mailagent.domain.order import OrderStatus
from mailagent.domain.refund import RefundReason


class DeclineReason(StrEnum):
    """Why the policy says no; the model may tell the customer."""

    ORDER_CANCELLED = "order_cancelled"
    NOTHING_LEFT = "nothing_left_to_refund"
    ABOVE_BALANCE = "more_than_is_left_of_the_payment"
    WINDOW_CLOSED = "return_window_closed"


class ManagerReason(StrEnum):
    """Why a manager must decide; shown to the manager."""

    ABOVE_LIMIT = "above_limit"
    ABOVE_LIMIT_TOGETHER = "above_limit_with_earlier_refunds"
    NO_LIMIT_FOR_CURRENCY = "no_limit_for_currency"
    NOT_DELIVERED = "order_not_delivered"
    REFUSED_BEFORE = "refused_before"


@dataclass(frozen=True, slots=True)
class Goodwill:
    """A discount on the next order that the agent may give, once per order: up to `most_percent`, by a
    code that is good for `valid_days`."""

    most_percent: int
    valid_days: int = 90


@dataclass(frozen=True, slots=True)
class Policy:
    """The shop's rules. `limits` maps a currency to the largest amount, in minor units, that is
    refunded without asking; a currency that is not listed always needs a manager. Above
    `four_eyes_above` (likewise) a second manager has to approve after the first. `version` names these
    rules in what they decided; `source` is the text that they were written in."""

    limits: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(
            {"USD": 1_000_00, "EUR": 1_000_00, "GBP": 1_000_00}
        )
    )
    return_window_days: int = 30
    four_eyes_above: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    goodwill: Goodwill | None = None
    version: str = "built-in"
    source: str = ""


@dataclass(frozen=True, slots=True)
class RefundFacts:
    """What the decision is based on, gathered from rows while the order is locked.

    `remaining` is what was paid less every refund that was paid or is under way;
    `granted_unasked` is what this order got back, or is about to, without a person's decision;
    `refused_before`: a refund that covers some of the same units was rejected or has expired.
    """

    amount: Money
    remaining: Money
    granted_unasked: Money
    order_status: OrderStatus
    delivered_at: datetime | None
    reason: RefundReason
    refused_before: bool


@dataclass(frozen=True, slots=True)
class Approved:
    """Paid without asking anybody."""


@dataclass(frozen=True, slots=True)
class NeedsManager:
    reasons: tuple[ManagerReason, ...]
    four_eyes: bool = False


@dataclass(frozen=True, slots=True)
class Declined:
    reason: DeclineReason


Decision = Approved | NeedsManager | Declined


def decide(facts: RefundFacts, policy: Policy, now: datetime) -> Decision:
    """Decide on a proposed refund: a refusal first, then what needs a person, else approved."""
    refusal = _refusal(facts, policy, now)
    if refusal is not None:
        return Declined(refusal)
    reasons = tuple(_manager_reasons(facts, policy))
    return NeedsManager(reasons) if reasons else Approved()


def _refusal(facts: RefundFacts, policy: Policy, now: datetime) -> DeclineReason | None:
    if facts.order_status is OrderStatus.CANCELLED:
        return DeclineReason.ORDER_CANCELLED
    if facts.amount.minor <= 0:
        return DeclineReason.NOTHING_LEFT
    if facts.amount.minor > facts.remaining.minor:
        return DeclineReason.ABOVE_BALANCE
    if facts.delivered_at is not None and now > return_by(facts.delivered_at, policy):
        return DeclineReason.WINDOW_CLOSED
    return None


def _manager_reasons(facts: RefundFacts, policy: Policy) -> list[ManagerReason]:
    reasons = []
    limit = policy.limits.get(facts.amount.currency)
    if limit is None:
        reasons.append(ManagerReason.NO_LIMIT_FOR_CURRENCY)
    elif facts.amount.minor > limit:
        reasons.append(ManagerReason.ABOVE_LIMIT)
    elif facts.amount.minor + facts.granted_unasked.minor > limit:
        # Otherwise a dear order could be emptied unasked, one line at a time.
        reasons.append(ManagerReason.ABOVE_LIMIT_TOGETHER)
    if facts.order_status is not OrderStatus.DELIVERED:
        reasons.append(ManagerReason.NOT_DELIVERED)
    if facts.refused_before:
        # Otherwise what a manager said no to is paid when it is asked for in part.
        reasons.append(ManagerReason.REFUSED_BEFORE)
    return reasons


def return_by(delivered_at: datetime, policy: Policy) -> datetime:
    """Return the last moment at which an order delivered at `delivered_at` may come back."""
    try:
        return delivered_at + timedelta(days=policy.return_window_days)
    except OverflowError:  # beyond the year 9999, in which some systems write "never"
        return datetime.max.replace(tzinfo=UTC)
