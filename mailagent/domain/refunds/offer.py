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
    """The states of an offer. LAPSED: the customer accepted it when the order no longer had what it promised.
    EXPIRED: its date has passed; housekeeping sets that state later. In both states, only a mail that came
    before the date can accept it (`Offer.is_open`)."""

    OPEN = "open"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    LAPSED = "lapsed"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer of `percent` of the price. `items`: pairs of an item id and a quantity. `offered_by`: the policy
    or a manager's address. `refund_id`: the refund that it became. `instead_of`: the refund that a manager
    rejected with this offer; None for an offer of the policy."""

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

    def is_open(self, at: datetime) -> bool:
        """Return whether a customer who wrote at this time can accept it, even if it has expired since."""
        undecided = self.status in (OfferStatus.OPEN, OfferStatus.EXPIRED)
        return undecided and at < self.expires_at

    @property
    def wanted(self) -> list[WantedItem]:
        return [WantedItem(*item) for item in self.items]

    def is_for(self, item_ids: Sequence[str]) -> bool:
        """Return whether it is for one of these items."""
        return any(item_id in item_ids for item_id, _ in self.items)


def allows_offer(refund: Refund, policy: Policy) -> bool:
    """Return whether a manager may offer part of the price instead of this refund: only if the policy makes
    such offers, one manager decides, and no part of these units was refunded before."""
    is_whole = not any(line.is_rest for line in refund.lines)
    return policy.keep_offers is not None and not refund.four_eyes and is_whole


def units_of(item_ids: Sequence[str], lines: Sequence[RefundLine]) -> tuple[tuple[str, int], ...]:
    """Return pairs of an item id and how many units of it these lines have. `item_ids`: the item of each line,
    in the same order."""
    units = Counter[str]()
    for item_id, line in zip(item_ids, lines, strict=True):
        units[item_id] += line.quantity
    return tuple(units.items())


def worth_of(lines: Sequence[RefundLine], currency: str) -> Money:
    return Money(sum(line.amount.minor for line in lines), currency)


def part_of(amount: Money, percent: int) -> Money:
    """Return so many percent of an amount, rounded down."""
    return amount.part(percent, 100)


def part_of_price(refund: Refund, percent: int) -> Money:
    """Return so many percent of what a refund's items are worth."""
    return part_of(worth_of(refund.lines, refund.amount.currency), percent)


def share_out(lines: Sequence[RefundLine], amount: Money) -> tuple[RefundLine, ...]:
    """Return the lines with `amount` shared out in proportion to their worth. Raises ValueError if `amount` is
    not above zero, or is more than the lines are worth."""
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
    are worth less than the offer. `earlier`: all refunds of the order."""
    try:
        lines = price_lines(order, offer.wanted, earlier)
        shared = share_out(lines, offer.amount)
    except (ItemsProblem, ValueError):  # the order has changed
        return None
    units = sum(line.quantity for line in lines if not line.is_rest)
    return shared if units == sum(quantity for _, quantity in offer.items) else None


def is_left(offer: Offer, order: Order, earlier: Sequence[Refund], remaining: Money) -> bool:
    """Return whether the order still has what an offer promises. `remaining`: what was paid for the order, less
    refunds and chargebacks. Only an offer of a manager stands on a cancelled order."""
    cancelled = order.status is OrderStatus.CANCELLED and offer.instead_of is None
    if cancelled or order.charged_back.minor or remaining < offer.amount:
        return False
    return lines_of(offer, order, earlier) is not None
