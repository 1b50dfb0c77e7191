"""The rules that decide on a refund, in their order.

Amounts, balances and dates come from rows; only the reason comes from the model. We store the facts with the
decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import Packed
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.policy import (
    REFUSED_BEFORE,
    SHOP_AT_FAULT,
    Approved,
    Cap,
    Decision,
    Declined,
    DeclineReason,
    ManagerReason,
    NeedsManager,
    Policy,
    return_by,
)
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.text import tell_moment

# A date of delivery may be so far in the future: the shop's clock may be ahead, or its dates have no time.
AHEAD_MOST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The comparison of a rule with its limits: the sum `total` with `limit`, in minor units, and the number of
    requests `count` with `most`. None for no such limit. The limit need not be exceeded: see
    `Weighed.applies`."""

    total: int
    limit: int | None
    count: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Weighed:
    """The result of one rule: its `outcome`, whether that `applies`, and the `fact` that it looked at, in
    words. `exceeded`: the comparison with the limit, for a rule that has one."""

    outcome: DeclineReason | ManagerReason
    applies: bool
    fact: str
    exceeded: Exceeded | None = field(default=None, compare=False)


def decide(
    facts: RefundFacts, policy: Policy, now: datetime, despite: Collection[DeclineReason] = ()
) -> Decision:
    """Decide on a proposed refund. The first rule that declines wins. Else, if any rule wants a manager, a
    manager decides. Else the refund is approved. Ignore the reasons to decline in `despite`."""
    weighed = weigh(facts, policy, now)
    outcomes = [each.outcome for each in weighed if each.applies and each.outcome not in despite]
    for outcome in outcomes:
        if isinstance(outcome, DeclineReason):
            ended_at = None
            if outcome is DeclineReason.WINDOW_CLOSED and facts.delivered_at:
                ended_at = return_by(facts.delivered_at, policy, facts.categories)
            return Declined(outcome, ended_at)
    reasons = tuple(each for each in outcomes if isinstance(each, ManagerReason))
    if not reasons:
        return Approved()
    return NeedsManager(reasons, four_eyes=ManagerReason.FOUR_EYES in reasons)


def weigh(facts: RefundFacts, policy: Policy, now: datetime) -> tuple[Weighed, ...]:
    """Return the results of all rules, in their order."""
    rules = (
        *_declines(facts),
        *_returns(facts, policy, now),
        *_limits(facts, policy),
        *_arrival(facts, policy, now),
        *_circumstances(facts, policy),
        *_always(facts, policy),
        *_caps(facts, policy),
        _four_eyes(facts, policy),
    )
    if not policy.drafts_refunds:
        return rules
    return (*rules, _drafted(facts, policy, any(each.applies for each in rules)))


def list_exceeded(facts: RefundFacts, policy: Policy, now: datetime) -> dict[str, Exceeded]:
    """Return the comparison with a limit, by outcome, of each rule that applies and has a limit."""
    weighed = weigh(facts, policy, now)
    return {each.outcome.value: each.exceeded for each in weighed if each.applies and each.exceeded}


def _is_cancelled(facts: RefundFacts) -> bool:
    return facts.order_status is OrderStatus.CANCELLED


# --- what is declined ---------------------------------------------------------------------------


def _declines(facts: RefundFacts) -> Iterator[Weighed]:
    nothing = _is_cancelled(facts) and facts.remaining.minor <= 0
    fact = f"the order is {facts.order_status.value}; {facts.remaining} is left"
    yield Weighed(DeclineReason.ORDER_CANCELLED, nothing, fact)
    # A refund beside a chargeback would pay twice. People may refund the order's other payments by hand.
    taken = facts.charged_back
    yield Weighed(DeclineReason.CHARGED_BACK, taken.minor > 0, f"charged back: {taken}")
    fact = f"the items come to {facts.amount}"
    yield Weighed(DeclineReason.NOTHING_LEFT, facts.amount.minor <= 0, fact)
    above = facts.amount.minor > facts.remaining.minor
    fact = f"{facts.amount} of {facts.remaining} that is left of what was paid"
    yield Weighed(DeclineReason.ABOVE_BALANCE, above, fact)


def _returns(facts: RefundFacts, policy: Policy, now: datetime) -> Iterator[Weighed]:
    # Nothing of a cancelled order is sent back.
    returned = not _is_cancelled(facts) and not facts.cancels
    final, reason = _final_items(facts, policy), facts.reason
    refused = bool(final) and reason not in SHOP_AT_FAULT
    fact = f"final sale: {', '.join(final) or 'none'}; reason: {reason.value}"
    yield Weighed(DeclineReason.FINAL_SALE, returned and refused, fact)
    # Of several items, the shortest window counts.
    fact, closed = f"{policy.window_days(facts.categories)} days; not delivered yet", False
    if facts.delivered_at is not None:
        until = return_by(facts.delivered_at, policy, facts.categories)
        fact = f"delivered {tell_moment(facts.delivered_at)}, ends {tell_moment(until)}"
        closed = (facts.asked_at or now) > until
    yield Weighed(DeclineReason.WINDOW_CLOSED, returned and closed, fact)
    if facts.reason is RefundReason.NOT_DELIVERED:
        yield _still_on_its_way(facts, policy, now)
    # The photo comes last: we do not ask for one and then decline for another reason.
    missing = reason in policy.photo_reasons and facts.photos == 0
    fact = f"reason: {reason.value}; photos: {facts.photos}"
    yield Weighed(DeclineReason.PHOTO_NEEDED, returned and missing, fact)


# --- what needs a person --------------------------------------------------------------------------


def _limits(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    currency, minor = facts.amount.currency, facts.amount.minor
    limit = policy.limits.get(currency)
    if limit is None:
        yield Weighed(ManagerReason.NO_LIMIT_FOR_CURRENCY, True, f"none is set for {currency}")
        return
    upto = f"up to {Money(limit, currency)} without asking"
    above = minor > limit
    exceeded = Exceeded(minor, limit)
    yield Weighed(ManagerReason.ABOVE_LIMIT, above, f"{facts.amount}; {upto}", exceeded)
    # Without this rule, an expensive order could be refunded without a manager, one line at a time.
    together = minor + facts.granted_unasked.minor
    fact = f"{Money(together, currency)} with what no manager decided on before; {upto}"
    applies, exceeded = together > limit and not above, Exceeded(together, limit)
    yield Weighed(ManagerReason.ABOVE_LIMIT_TOGETHER, applies, fact, exceeded)


def _still_on_its_way(facts: RefundFacts, policy: Policy, now: datetime) -> Weighed:
    days, due_since = policy.late_parcels.ask_after_days, facts.packed.due_since
    waits = due_since is not None and days is not None and now < due_since + timedelta(days=days)
    fact = f"{_tell_parcels(facts)}; refunds wait {_tell_days(days)}"
    return Weighed(DeclineReason.PARCEL_ON_ITS_WAY, waits and not _is_cancelled(facts), fact)


def _arrival(facts: RefundFacts, policy: Policy, now: datetime) -> Iterator[Weighed]:
    fact = f"the order is {facts.order_status.value}"
    arrived = facts.order_status is OrderStatus.DELIVERED
    if facts.delivered_at is not None and facts.delivered_at > now + AHEAD_MOST:
        # A wrong date would keep the return window open for ever.
        fact, arrived = f"{fact}, as of {tell_moment(facts.delivered_at)}, which is to come", False
    missed = facts.reason is RefundReason.NOT_DELIVERED
    if missed:
        # The parcels of these items say more than the order.
        came = [each.is_delivered for each in facts.packed.parcels] or [arrived]
        fact, delivered = f"{fact}; {_tell_parcels(facts)}", any(came)
        arrived = (arrived and all(came)) or _is_lost(facts, policy, now)
    missing = not arrived and not _is_cancelled(facts) and not facts.cancels
    yield Weighed(ManagerReason.NOT_DELIVERED, missing, fact)
    if missed:
        yield Weighed(ManagerReason.PARCEL_DELIVERED, delivered, fact)


def _is_lost(facts: RefundFacts, policy: Policy, now: datetime) -> bool:
    if facts.order_status is OrderStatus.DELIVERED or not facts.packed.is_tracked:
        return False
    days, due_since = policy.late_parcels.refund_after_days, facts.packed.due_since
    if days is None or due_since is None:
        return False
    # `due_since` ignores an expected date far ahead. Until the parcel is late by that, too, a manager decides.
    expected = (each.expected_at for each in facts.packed.parcels if each.expected_at)
    return max([due_since, *expected]) <= now - timedelta(days=days)


def _tell_parcels(facts: RefundFacts) -> str:
    states = ", ".join(each.status.value for each in facts.packed.parcels) or "unknown"
    since = facts.packed.due_since
    return f"parcels: {states}" + (f", due since {tell_moment(since)}" if since else "")


def _tell_days(days: int | None) -> str:
    return "none" if days is None else f"{days} days"


def _circumstances(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    # The shop may have refunded a cancelled order in its own system.
    fact = f"the order is {facts.order_status.value}"
    yield Weighed(ManagerReason.CANCELLED, _is_cancelled(facts), fact)
    # Without this rule, a customer could get in parts what a manager rejected.
    fact = f"some of it was refused before: {', '.join(facts.refused_before) or 'no'}"
    for reason in REFUSED_BEFORE:
        yield Weighed(reason, reason in facts.refused_before, fact)
    # Without this rule, a customer who asks again about one of three mugs would be paid for a second one.
    fact = f"the same items refunded or sent again before: {_yes(facts.items_before)}"
    yield Weighed(ManagerReason.ITEM_AGAIN, facts.items_before, fact)
    # Without this rule, the shop's people and we could both refund an item, or refund it and send it again.
    worth, elsewhere = facts.worth or facts.amount, facts.elsewhere
    price = facts.price or worth
    fact = f"worth {price}; {facts.amount} is asked for; elsewhere: {elsewhere or 'none'}"
    is_perhaps_refunded = elsewhere is not None and elsewhere >= price
    yield Weighed(ManagerReason.REMAINDER, worth > facts.amount or is_perhaps_refunded, fact)
    # Without this rule, each of the orders could refund the payment in full.
    shared = ", ".join(facts.shared_payments)
    fact = f"payments that other orders name: {shared or 'none'}"
    yield Weighed(ManagerReason.PAYMENT_SHARED, bool(shared), fact)
    final = _final_items(facts, policy)
    fact = f"final sale: {', '.join(final) or 'none'}; reason: {facts.reason.value}"
    at_fault = facts.reason in SHOP_AT_FAULT
    yield Weighed(ManagerReason.FINAL_SALE, bool(final) and at_fault, fact)
    needed = facts.reason in policy.photo_reasons and not _is_cancelled(facts) and not facts.cancels
    fact = f"photos: {facts.photos}; perhaps logos: {facts.maybe_logos}"
    unsure = needed and 0 < facts.photos == facts.maybe_logos
    yield Weighed(ManagerReason.PHOTO_UNSURE, unsure, fact)


def _always(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    named, reason = policy.always_ask, facts.reason
    for outcome, found in (
        (ManagerReason.REASON, [reason] if reason in named.reasons else []),
        (ManagerReason.CATEGORY, filter(named.has_category, facts.categories)),
        (ManagerReason.ITEM, (each.item_id for each in facts.lines if each.item_id in named.item_ids)),
        (ManagerReason.METHOD, filter(named.has_method, facts.methods)),
    ):  # fmt: skip
        words = ", ".join(dict.fromkeys(str(each) for each in found))
        yield Weighed(outcome, bool(words), f"named by the policy: {words or 'none'}")


def _caps(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    caps = policy.caps
    for outcome, cap, granted in (
        (ManagerReason.ORDER_CAP, caps.order, facts.granted_unasked),
        (ManagerReason.CUSTOMER_CAP, caps.customer, facts.of_customer),
        (ManagerReason.DAY_CAP, caps.day, facts.of_day),
    ):
        if cap:
            yield _cap(facts.amount, cap, granted or Granted(), outcome)


def _cap(amount: Money, cap: Cap, granted: Granted, outcome: ManagerReason) -> Weighed:
    count, money = granted.count + 1, Money(granted.minor + amount.minor, amount.currency)
    most = cap.money.get(amount.currency)
    above = (most is not None and money.minor > most) or (
        cap.count is not None and count > cap.count
    )
    limits = [] if most is None else [str(Money(most, amount.currency))]
    limits += [] if cap.count is None else [f"{cap.count} requests"]
    fact = (
        f"{money} in {count} requests with this one; at most {' and '.join(limits) or 'any amount'}"
    )
    return Weighed(outcome, above, fact, Exceeded(money.minor, most, count, cap.count))


def _four_eyes(facts: RefundFacts, policy: Policy) -> Weighed:
    currency = facts.amount.currency
    tier = policy.four_eyes_above.get(currency)
    # Without this sum, one manager alone could approve an expensive order in parts.
    together = facts.amount.minor + facts.seen_by_one.minor
    fact = f"{Money(together, currency)} with what no second person saw"
    if tier is not None:
        fact += f"; above {Money(tier, currency)} a second person approves"
    applies = tier is not None and together > tier
    return Weighed(ManagerReason.FOUR_EYES, applies, fact, Exceeded(together, tier))


def _drafted(facts: RefundFacts, policy: Policy, settled: bool) -> Weighed:
    """Return the result of draft mode, which asks a manager if no other rule applies. `settled`: one does."""
    currency = facts.amount.currency
    most = policy.draft.unasked_up_to.get(currency)
    # As with the limit, all that the same order got counts together.
    together = facts.amount.minor + facts.granted_unasked.minor
    let_through = facts.reason in policy.draft.unasked_reasons or (
        most is not None and together <= most
    )
    upto = "" if most is None else f"; up to {Money(most, currency)} for an order is unasked"
    fact = f"{Money(together, currency)}, reason: {facts.reason.value}{upto}"
    return Weighed(ManagerReason.DRAFT_MODE, not settled and not let_through, fact)


def _final_items(facts: RefundFacts, policy: Policy) -> list[str]:
    return [
        line.item_id
        for line in facts.lines
        if line.final_sale or policy.is_final(line.item_id, line.category)
    ]


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


# --- refund facts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LineFacts:
    """The facts of an order line. `final_sale` is what the line itself says."""

    item_id: str
    category: str | None = None
    final_sale: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """What the policy granted without a manager, refunds and goods sent again: how many, and their sum in minor
    units of the order's currency."""

    count: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True)
class RefundFacts:
    """The facts of a decision, gathered from rows while the order is locked.

    `remaining`: what was paid, less all refunds of the order that were paid or are under way, ours and external
    ones, and less `charged_back`, what the customer's bank took back.
    `lines`: the order lines that the refund is for. `methods`: the methods of the order's payments.
    `photos`: how many photos proven senders sent in the conversation; of these, `maybe_logos` may be logos.
    `refused_before`: which of `REFUSED_BEFORE` hold.
    `items_before`: units of the same items were refunded or sent again before, or are about to be.
    `worth`: what the items and the shipping add up to; `amount` is less if less is left.
    `price`: for an offer of part of the price, what the items and the shipping add up to; `worth` is the part.
    `elsewhere`: the external refunds of the order so far; None for none.
    `shared_payments`: the ids of payments that other orders name, too.
    `granted_unasked`: refunds and goods sent again of this order that no manager had to decide on.
    `of_customer`, `of_day`: the same for the customer and the whole shop; None if the policy has no such cap.
    `cancels`: the items are cancelled before they are shipped, and the refund is paid only after that.
    `seen_by_one`: how much refunds and goods sent again for this order hold that need no second manager.
    `packed`: the parcels that may hold the refund's items.
    `asked_at`: when the customer's mail came; the return window must have been open then. None: it must be now.
    """

    amount: Money
    remaining: Money
    order_status: OrderStatus
    delivered_at: datetime | None
    reason: RefundReason
    lines: tuple[LineFacts, ...]
    methods: tuple[str, ...]
    photos: int
    charged_back: Money
    refused_before: tuple[ManagerReason, ...]
    shared_payments: tuple[str, ...]
    granted_unasked: Granted
    of_customer: Granted | None
    of_day: Granted | None
    seen_by_one: Money
    items_before: bool = False
    maybe_logos: int = 0
    worth: Money | None = None
    price: Money | None = None
    elsewhere: Money | None = None
    packed: Packed = Packed()
    cancels: bool = False
    asked_at: datetime | None = None

    @property
    def categories(self) -> tuple[str | None, ...]:
        return tuple(line.category for line in self.lines)
