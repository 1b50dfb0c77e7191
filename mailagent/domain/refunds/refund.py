"""A refund: its states, its items, and its price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderLine


class RefundStatus(StrEnum):
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    PAID = "paid"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"


# A refund in one of these states may still be paid.
MAY_BE_PAID = frozenset({RefundStatus.AWAITING_APPROVAL, RefundStatus.APPROVED})
# The amount of a refund in one of these states counts against what the order has left.
HOLDING = MAY_BE_PAID | {RefundStatus.PAID}

# A manager rejected the refund, or none decided in time.
REFUSED = frozenset({RefundStatus.REJECTED, RefundStatus.EXPIRED})

_NEXT: Mapping[RefundStatus, frozenset[RefundStatus]] = {
    RefundStatus.AWAITING_APPROVAL: frozenset(
        {
            RefundStatus.APPROVED,
            RefundStatus.REJECTED,
            RefundStatus.EXPIRED,
            RefundStatus.WITHDRAWN,
            RefundStatus.FAILED,
        }
    ),
    RefundStatus.APPROVED: frozenset(
        {RefundStatus.PAID, RefundStatus.REJECTED, RefundStatus.FAILED, RefundStatus.WITHDRAWN}
    ),
    RefundStatus.PAID: frozenset({RefundStatus.FAILED}),  # the money came back to the shop
}


def check_transition(current: RefundStatus, following: RefundStatus) -> None:
    """Raise ValueError if a refund may not go from `current` to `following`: that is a bug."""
    if following not in _NEXT.get(current, frozenset()):
        raise ValueError(f"a refund that is {current} cannot become {following}")


class RefundReason(StrEnum):
    """Why the customer wants the money back; the model picks one."""

    DAMAGED = "damaged"
    WRONG_ITEM = "wrong_item"
    NOT_AS_DESCRIBED = "not_as_described"
    NOT_DELIVERED = "not_delivered"
    CHANGED_MIND = "changed_mind"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class RefundLine:
    """Units of one order line that a refund covers, and what they are worth. `is_rest`: the amount is what a
    manager took off an earlier refund of these units, which already holds the units."""

    line_no: int
    quantity: int
    amount: Money
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class Refund:
    refund_id: str
    order_id: str
    conversation_id: str
    mail_id: str
    amount: Money
    lines: tuple[RefundLine, ...]
    item_ids: tuple[str, ...]
    reason: RefundReason
    status: RefundStatus
    requested_at: datetime
    policy_reasons: tuple[str, ...] = ()
    decided_by: str | None = None
    decided_at: datetime | None = None
    note: str | None = None
    gateway: str | None = None
    gateway_reference: str | None = None
    paid_at: datetime | None = None
    failure: str | None = None
    run_id: str | None = None
    # How much of the amount is for shipping; the lines add up to the rest.
    shipping_minor: int = 0
    # How much less than its worth was asked for, because the payments had no more left.
    short_minor: int = 0
    # Whether a second manager must approve it after the first.
    four_eyes: bool = False
    # Whether to pay it although the order is cancelled: it pays for that cancellation, or a manager knew of it.
    despite_cancel: bool = False
    # Hash of the order's customer, if another one asked and the manager approved knowing that.
    approved_for: str | None = None
    policy_version: str | None = None
    # The person of the shop who asked for it; None for the agent.
    proposed_by: str | None = None
    # The mail that is its receipt, if that was written for another refund and is for several.
    receipt_id: str | None = None
    # The bonus in percent, if the customer chose store credit; None for money.
    credit_bonus: int | None = None
    # Whether the customer keeps the items, and accepted part of their price.
    keeps_items: bool = False
    # How much is paid of a refund that is approved, or was before it failed; None if nothing is.
    part_paid: Money | None = None
    # How much was paid and then came back to the shop; None if nothing did.
    returned: Money | None = None
    # The refund as it was asked for, if a manager approved fewer units.
    whole: Refund | None = None

    @property
    def closed_at(self) -> datetime | None:
        """When it was paid, or ended unpaid; None if it has not ended, or the time is not on record."""
        return self.paid_at or (None if self.status in HOLDING else self.decided_at)

    @property
    def holds_money(self) -> bool:
        """Whether its money and units count against what the order has left.

        A refund that failed after a part was paid counts with all its units: people decide about the rest.
        """
        return self.status in HOLDING or self.part_paid is not None

    @property
    def worth(self) -> Money:
        """What its lines and the shipping add up to."""
        minor = sum(line.amount.minor for line in self.lines) + self.shipping_minor
        return Money(minor, self.amount.currency)

    @property
    def asked(self) -> Money:
        """What was asked for, even if less was approved."""
        if self.whole is not None:
            return self.whole.asked
        return Money(self.worth.minor - self.short_minor, self.amount.currency)

    @property
    def shipping(self) -> Money | None:
        """How much of the amount is for shipping; None if nothing is."""
        return Money(self.shipping_minor, self.amount.currency) if self.shipping_minor else None

    @property
    def short(self) -> Money | None:
        """How much less than its worth was asked for; None if all of it was."""
        return Money(self.short_minor, self.amount.currency) if self.short_minor else None

    @property
    def held(self) -> Money:
        """How much counts against what the order has left."""
        if self.status in HOLDING:
            return self.amount
        return self.part_paid or Money(0, self.amount.currency)

    @property
    def cuts(self) -> dict[int, int]:
        """How much a manager took off the worth of each line, in minor units, by line number."""
        goods = sum(line.amount.minor for line in self.lines)
        cut = min(goods, self.worth.minor - self.short_minor - self.amount.minor)
        cuts, before = {}, 0
        for line in self.lines if cut > 0 else ():
            upto = before + line.amount.minor
            cuts[line.line_no] = cut * upto // goods - cut * before // goods
            before = upto
        return cuts

    def covering(self, quantities: Mapping[int, int]) -> Refund:
        """Return the refund for fewer units. `quantities`: how many units, by line number; other lines keep
        theirs. Fewer units get no shipping. The amount is what the units are worth, at most the amount now."""
        whole = self.whole or self
        now = {line.line_no: line.quantity for line in self.lines} | dict(quantities)
        kept = [
            (_units(line, now.get(line.line_no, 0)), item_id)
            for line, item_id in zip(whole.lines, whole.item_ids, strict=True)
            if now.get(line.line_no)
        ]
        lines = tuple(line for line, _ in kept)
        if lines == self.lines:
            return self
        worth = sum(line.amount.minor for line in lines)
        short = max(0, worth - self.asked.minor)
        return replace(
            self,
            lines=lines,
            item_ids=tuple(item_id for _, item_id in kept),
            shipping_minor=0,
            short_minor=short,
            amount=Money(min(worth - short, self.amount.minor), self.amount.currency),
            whole=whole,
        )

    def is_for(self, lines: Iterable[RefundLine]) -> bool:
        """Return whether it covers exactly the units of `lines`, whatever they are worth."""
        mine = {(line.line_no, line.quantity) for line in self.lines}
        return mine == {(line.line_no, line.quantity) for line in lines}


def _units(line: RefundLine, quantity: int) -> RefundLine:
    """Return the line for fewer units, with a proportional amount, rounded down."""
    return replace(line, quantity=quantity, amount=line.amount.part(quantity, line.quantity))


@dataclass(frozen=True, slots=True)
class WantedItem:
    """What the model asks for: an item of the order, and how many of it (None: all that are left)."""

    item_id: str
    quantity: int | None = None


class ItemsProblem(ValueError):
    """The wanted items do not fit the order; the text says why, and the model may see it."""


def price_lines(
    order: Order, wanted: Sequence[WantedItem], earlier: Iterable[Refund]
) -> tuple[RefundLine, ...]:
    """Return refund lines for the `wanted` items, with their worth. `earlier`: all refunds of the order.

    Units that an earlier refund holds are left out, so an empty result means that nothing is left. An amount
    that a manager took off an earlier refund can still be refunded: if its line has no other units, the result
    has a line with `is_rest`. Each unit is worth its share of what was paid for the goods: less all discounts,
    also if the customer simply paid less than the lines add up to, and with the tax on top. Shipping is not
    included: see `price_shipping`.

    Raises ItemsProblem for an item that is not on the order or is named twice, and for a quantity below 1 or
    above what was bought.
    """
    past = _Past(tuple(earlier))
    chosen: list[RefundLine] = []
    seen: set[str] = set()
    for want in wanted:
        if want.item_id in seen:
            raise ItemsProblem(f"item {want.item_id} is named twice")
        seen.add(want.item_id)
        chosen += _units_of(order, want, past)
    return tuple(sorted(chosen, key=lambda line: line.line_no))


class _Past:
    """What earlier refunds hold, by line number: `taken`: units; `given`: amounts in minor units; `rest`:
    what managers took off, less later refunds of that; below 0 if the lowered refund ended unpaid."""

    def __init__(self, earlier: Sequence[Refund]) -> None:
        self.taken, self.given, self.rest = taken_units(earlier), Counter[int](), Counter[int]()
        for line in _held_lines(earlier):
            if line.is_rest:
                self.rest[line.line_no] -= line.amount.minor
            else:
                self.given[line.line_no] += line.amount.minor
        for refund in earlier:
            if refund.status in (RefundStatus.APPROVED, RefundStatus.PAID):
                self.rest.update(refund.cuts)


def _units_of(order: Order, want: WantedItem, past: _Past) -> list[RefundLine]:
    lines = [line for line in order.lines if line.item_id == want.item_id]
    if not lines:
        raise ItemsProblem(f"item {want.item_id} is not on order {order.order_id}")
    bought = sum(line.quantity for line in lines)
    if want.quantity is not None and not 1 <= want.quantity <= bought:
        raise ItemsProblem(f"item {want.item_id}: quantity must be from 1 to {bought}")
    left = bought if want.quantity is None else want.quantity
    chosen = []
    for line in lines:
        start, before = past.taken[line.line_no], past.given[line.line_no]
        units = min(left, line.quantity - start)
        rest = past.rest[line.line_no]
        if units > 0:
            worth = _line_worth(order, line, start + units) - before + min(0, rest)
            # If the order has changed since, later units must not make up for what earlier ones got too little.
            amount = Money(max(0, min(worth, _most_for(order, line, units))), order.currency)
            chosen.append(RefundLine(line.line_no, units, amount))
            left -= units
        elif left > 0 and rest > 0:
            again, worth_left = min(left, line.quantity), Money(rest, order.currency)
            chosen.append(RefundLine(line.line_no, again, worth_left, is_rest=True))
            left -= again
    return chosen


def _held_lines(earlier: Iterable[Refund]) -> Iterator[RefundLine]:
    return (line for refund in earlier if refund.holds_money for line in refund.lines)


def taken_units(earlier: Iterable[Refund]) -> Counter[int]:
    """Return how many units of each line earlier refunds hold, by line number."""
    taken = Counter[int]()
    for line in _held_lines(earlier):
        taken[line.line_no] += 0 if line.is_rest else line.quantity
    return taken


def price_shipping(order: Order, lines: Iterable[RefundLine], earlier: Iterable[Refund]) -> Money:
    """Return how much of the shipping is refunded with `lines`: all that is left of it with the last units of
    the order, else nothing. Units that the customer keeps for part of their price do not count as refunded.
    (Directive 2011/83/EU, article 13: withdrawal from the whole contract returns the costs of delivery,
    too.)"""
    past = tuple(earlier)
    taken = taken_units(each for each in past if not each.keeps_items)
    units = [line for line in lines if not line.is_rest]
    for line in units:
        taken[line.line_no] += line.quantity
    whole = bool(units) and all(taken.get(line.line_no, 0) >= line.quantity for line in order.lines)
    given = sum(refund.shipping_minor for refund in past if refund.holds_money)
    left = _goods_and_shipping(order)[1] - given
    return Money(max(0, left) if whole else 0, order.currency)


def _goods_and_shipping(order: Order) -> tuple[int, int]:
    """Return what was paid for the goods, and for shipping, in minor units. Tax on top, and an amount that the
    customer paid less than the total, are shared between them in proportion."""
    goods = sum(line.net_minor for line in order.lines) - order.discount_minor
    total = goods + order.shipping_minor
    paid = min(order.paid.minor, total + order.tax_minor)
    shipping = order.share(order.shipping_minor * paid, total) if total else 0
    return paid - shipping if total else 0, shipping


def _line_worth(order: Order, line: OrderLine, units: int) -> int:
    """Return what the first `units` of a line are worth together, in minor units.

    It is the difference of two running totals over the order. A refund gets this less what earlier refunds got,
    so that all units add up to exactly what was paid, also after a rejected refund in between.
    """
    before = sum(each.net_minor for each in order.lines if each.line_no < line.line_no)
    paid, total = _goods_and_shipping(order)[0], sum(each.net_minor for each in order.lines)
    if not total:
        return 0
    reached = before * line.quantity + line.net_minor * units
    upto = order.share(reached * paid, total * line.quantity)
    return upto - order.share(before * paid, total)


def _most_for(order: Order, line: OrderLine, units: int) -> int:
    """Return the most that `units` of a line may be worth, in minor units: each is rounded up, because after
    rejected refunds in between, all that are left may be the ones rounded up."""
    paid, total = _goods_and_shipping(order)[0], sum(each.net_minor for each in order.lines)
    return -order.share(-line.net_minor * paid, total * line.quantity) * units if total else 0


def worth_of_item(
    order: Order, item_id: str, units: int | None, earlier: Sequence[Refund]
) -> Money:
    """Return what `units` of an item (None: all that are left) are worth, without shipping.

    Raises ItemsProblem for an item that is not on the order, and for `units` below 1 or above what was bought.
    """
    lines = price_lines(order, [WantedItem(item_id, units)], earlier)
    return Money(sum(line.amount.minor for line in lines), order.currency)


def worth_of_all(order: Order, earlier: Sequence[Refund], with_shipping: bool) -> Money:
    """Return what all units that are left are worth; `with_shipping`: with what is left of the shipping."""
    item_ids = dict.fromkeys(line.item_id for line in order.lines)
    lines = price_lines(order, [WantedItem(item_id) for item_id in item_ids], earlier)
    minor = sum(line.amount.minor for line in lines)
    if lines and with_shipping:
        minor += price_shipping(order, lines, earlier).minor
    return Money(minor, order.currency)


def left_of_payments(order: Order, earlier: Sequence[Refund], elsewhere_minor: int) -> Money:
    """Return what the payments have left: what was paid, less chargebacks, less what the `earlier` refunds
    hold, less external refunds (`elsewhere_minor`, in minor units)."""
    return order.left_after(sum(refund.held.minor for refund in earlier) + elsewhere_minor)
