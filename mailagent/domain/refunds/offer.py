"""An offer: the customer keeps the items, and gets part of their price back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    Refund,
    RefundLine,
    RefundReason,
    WantedItem,
    price_lines,
)


class OfferStatus(StrEnum):
    """`lapsed`: it was accepted when it could not be kept any more. `expired`: its date has passed; until the
    housekeeping says so, it is open but cannot be accepted."""

    OPEN = "open"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    LAPSED = "lapsed"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Offer:
    """`items`: pairs of an item id and a quantity. `refund_id`: the refund that it became. `instead_of`: the
    refund that a manager did not approve, and offered this for."""

    offer_id: str
    order_id: str
    conversation_id: str
    mail_id: str
    items: tuple[tuple[str, int], ...]
    reason: RefundReason
    percent: int
    amount: Money
    status: OfferStatus
    offered_by: str
    policy_version: str
    offered_at: datetime
    expires_at: datetime
    refund_id: str | None = None
    instead_of: str | None = None

    def is_open(self, now: datetime) -> bool:
        return self.status is OfferStatus.OPEN and now < self.expires_at

    @property
    def wanted(self) -> list[WantedItem]:
        return [WantedItem(*item) for item in self.items]

    def is_for(self, item_ids: Sequence[str]) -> bool:
        """Return whether it is for one of these items."""
        return any(item_id in item_ids for item_id, _ in self.items)


def allows_offer(refund: Refund, policy: Policy) -> bool:
    """Return whether a manager may offer part of the price instead of a refund: the shop makes such offers, one
    person decides, and no part of the units was refunded before."""
    is_whole = not any(line.is_rest for line in refund.lines)
    return policy.keep_offers is not None and not refund.four_eyes and is_whole


def units_of(item_ids: Sequence[str], lines: Sequence[RefundLine]) -> tuple[tuple[str, int], ...]:
    """Return how many of each item these lines are for; the item ids are theirs, in the same order."""
    units = Counter[str]()
    for item_id, line in zip(item_ids, lines, strict=True):
        units[item_id] += line.quantity
    return tuple(units.items())


def worth_of(lines: Sequence[RefundLine], currency: str) -> Money:
    return Money(sum(line.amount.minor for line in lines), currency)


def part_of(amount: Money, percent: int) -> Money:
    """Return so many percent of an amount, rounded down."""
    return amount.part(percent, 100)


def share_out(lines: Sequence[RefundLine], amount: Money) -> tuple[RefundLine, ...]:
    """Return the lines with `amount` shared out in proportion to what they are worth. Raises ValueError if that
    is less."""
    goods = worth_of(lines, amount.currency).minor
    if not 0 < amount.minor <= goods:
        raise ValueError(f"{amount} is no part of {goods} minor units")
    shared, before = [], 0
    for line in lines:
        upto = before + line.amount.minor
        minor = amount.minor * upto // goods - amount.minor * before // goods
        shared.append(replace(line, amount=Money(minor, amount.currency)))
        before = upto
    return tuple(shared)


def lines_of(
    offer: Offer, order: Order, earlier: Sequence[Refund]
) -> tuple[RefundLine, ...] | None:
    """Return the lines of the refund that an offer would become; None if its units are not left any more, or
    have another price. `earlier`: all refunds of the order."""
    try:
        lines = price_lines(order, offer.wanted, earlier)
        shared = share_out(lines, offer.amount)
    except (ItemsProblem, ValueError):  # the order has changed
        return None
    units = sum(line.quantity for line in lines if not line.is_rest)
    return shared if units == sum(quantity for _, quantity in offer.items) else None


def is_left(offer: Offer, order: Order, earlier: Sequence[Refund], remaining: Money) -> bool:
    """Return whether the order has left what an offer promises. `remaining`: what was paid for it and neither
    given nor taken back. A manager may have made the offer for a cancelled order."""
    cancelled = order.status is OrderStatus.CANCELLED and offer.instead_of is None
    if cancelled or order.charged_back.minor or remaining < offer.amount:
        return False
    return lines_of(offer, order, earlier) is not None
