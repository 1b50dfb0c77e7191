"""The rules that decide on a refund, in their order.

Amounts, balances and dates come from rows; only the reason comes from the model. The facts are stored with
the decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.policy import (
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

# The shop's clock may be ahead of ours, or its dates have no time of day.
AHEAD_MOST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Weighed:
    """One rule, the fact that it looked at, and its outcome: None lets the refund pass."""

    rule: str
    fact: str
    outcome: DeclineReason | ManagerReason | None = None


def decide(facts: RefundFacts, policy: Policy, now: datetime) -> Decision:
    """Decide on a proposed refund: declined by the first rule that declines, else a manager decides if any
    rule says so, else approved."""
    outcomes = [each.outcome for each in weigh(facts, policy, now)]
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
    """Return every rule in its order, with its fact and its outcome."""
    returns = list(_returns(facts, policy, now))
    if _is_cancelled(facts):  # Nothing of a cancelled order is sent back.
        returns = [replace(each, outcome=None) for each in returns]
    rules = (
        *_refusals(facts),
        *returns,
        *_limits(facts, policy),
        _arrival(facts, now),
        *_circumstances(facts, policy),
        *_always(facts, policy),
        *_caps(facts, policy),
        _four_eyes(facts, policy),
    )
    if not policy.drafts_refunds:
        return rules
    return (*rules, _drafted(facts, policy, any(each.outcome for each in rules)))


def _is_cancelled(facts: RefundFacts) -> bool:
    return facts.order_status is OrderStatus.CANCELLED


# --- what is declined ---------------------------------------------------------------------------


def _refusals(facts: RefundFacts) -> Iterator[Weighed]:
    nothing = _is_cancelled(facts) and facts.remaining.minor <= 0
    yield Weighed(
        "a cancelled order of which nothing is left is not refunded",
        f"the order is {facts.order_status.value}; {facts.remaining} is left",
        DeclineReason.ORDER_CANCELLED if nothing else None,
    )
    yield Weighed(
        # A refund beside a chargeback would pay twice. People refund what is left of other payments.
        "a charged back payment is the bank's matter",
        f"charged back: {facts.charged_back}",
        DeclineReason.CHARGED_BACK if facts.charged_back.minor > 0 else None,
    )
    yield Weighed(
        "something is left to refund of the items",
        f"they come to {facts.amount}",
        DeclineReason.NOTHING_LEFT if facts.amount.minor <= 0 else None,
    )
    above = facts.amount.minor > facts.remaining.minor
    yield Weighed(
        "never more than is left of what was paid",
        f"{facts.amount} of {facts.remaining} that is left",
        DeclineReason.ABOVE_BALANCE if above else None,
    )


def _returns(facts: RefundFacts, policy: Policy, now: datetime) -> Iterator[Weighed]:
    final = _final_items(facts, policy)
    refused = bool(final) and facts.reason not in SHOP_AT_FAULT
    yield Weighed(
        "a final sale is not taken back, unless the shop is at fault",
        f"final sale: {', '.join(final) or 'none'}; reason: {facts.reason.value}",
        DeclineReason.FINAL_SALE if refused else None,
    )
    days = policy.window_days(facts.categories)
    fact, closed = "not delivered yet", False
    if facts.delivered_at is not None:
        until = return_by(facts.delivered_at, policy, facts.categories)
        fact = f"delivered {_moment(facts.delivered_at)}, ends {_moment(until)}"
        closed = now > until
    yield Weighed(
        f"within the return window, the shortest of the items': {days} days",
        fact,
        DeclineReason.WINDOW_CLOSED if closed else None,
    )
    # The photo comes last: we do not ask for one and then decline for another reason.
    missing = facts.reason in policy.photo_reasons and facts.photos == 0
    yield Weighed(
        f"reasons that need a photo: {', '.join(sorted(policy.photo_reasons)) or 'none'}",
        f"reason: {facts.reason.value}; photos: {facts.photos}",
        DeclineReason.PHOTO_NEEDED if missing else None,
    )


# --- what needs a person --------------------------------------------------------------------------


def _limits(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    currency, minor = facts.amount.currency, facts.amount.minor
    limit = policy.limits.get(currency)
    if limit is None:
        yield Weighed(
            "the automatic limit of the currency",
            f"none is set for {currency}",
            ManagerReason.NO_LIMIT_FOR_CURRENCY,
        )
        return
    together = minor + facts.granted_unasked.minor
    above = minor > limit
    yield Weighed(
        f"up to {Money(limit, currency)} without asking",
        f"{facts.amount}",
        ManagerReason.ABOVE_LIMIT if above else None,
    )
    yield Weighed(
        f"up to {Money(limit, currency)} without asking for all refunds of an order together",
        f"{Money(together, currency)} with earlier ones that nobody was asked for",
        # Otherwise an expensive order could be refunded without a manager, one line at a time.
        ManagerReason.ABOVE_LIMIT_TOGETHER if together > limit and not above else None,
    )


def _arrival(facts: RefundFacts, now: datetime) -> Weighed:
    rule, fact = "the order was delivered", f"the order is {facts.order_status.value}"
    arrived = facts.order_status is OrderStatus.DELIVERED
    if facts.delivered_at is not None and facts.delivered_at > now + AHEAD_MOST:
        # A wrong date would keep the return window open for ever.
        fact, arrived = f"{fact}, as of {_moment(facts.delivered_at)}, which is to come", False
    asked_anyway = arrived or _is_cancelled(facts)
    return Weighed(rule, fact, None if asked_anyway else ManagerReason.NOT_DELIVERED)


def _circumstances(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    yield Weighed(
        # The shop may have refunded it in its own system.
        "what is left of a cancelled order is for a person",
        f"the order is {facts.order_status.value}",
        ManagerReason.CANCELLED if _is_cancelled(facts) else None,
    )
    yield Weighed(
        # Otherwise the customer gets in parts what a manager rejected.
        "nothing of it was refused before, or came back",
        "some of it was" if facts.refused_before else "nothing was",
        ManagerReason.REFUSED_BEFORE if facts.refused_before else None,
    )
    yield Weighed(
        # Otherwise a customer who asks again for one of three mugs is paid for a second one.
        "no units of the same items were refunded before, or are about to be",
        "some were" if facts.items_before else "none were",
        ManagerReason.ITEM_AGAIN if facts.items_before else None,
    )
    more = facts.worth is not None and facts.worth.minor > facts.amount.minor
    yield Weighed(
        "what the items come to is left of what was paid",
        f"they come to {facts.worth or facts.amount}; {facts.amount} is asked for",
        ManagerReason.REMAINDER if more else None,
    )
    shared = ", ".join(facts.shared_payments)
    yield Weighed(
        # Otherwise each of the orders could refund the payment in full.
        "no other order names its payments",
        shared or "none does",
        ManagerReason.PAYMENT_SHARED if shared else None,
    )
    final = _final_items(facts, policy)
    yield Weighed(
        "a final sale for which the shop is at fault is for a person",
        f"final sale: {', '.join(final) or 'none'}",
        ManagerReason.FINAL_SALE if final and facts.reason in SHOP_AT_FAULT else None,
    )


def _always(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    named = policy.always_ask
    found: dict[str, tuple[ManagerReason, list[str]]] = {
        "reasons": (ManagerReason.REASON, [facts.reason] if facts.reason in named.reasons else []),
        "categories": (
            ManagerReason.CATEGORY,
            [each for each in facts.categories if each and named.has_category(each)],
        ),
        "items": (
            ManagerReason.ITEM,
            [line.item_id for line in facts.lines if line.item_id in named.item_ids],
        ),
        "payment methods": (
            ManagerReason.METHOD,
            [each for each in facts.methods if named.has_method(each)],
        ),
    }
    for what, (reason, matching) in found.items():
        words = ", ".join(dict.fromkeys(matching))
        yield Weighed(
            f"{what} that always need a person", words or "none", reason if words else None
        )


def _caps(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    caps = policy.caps
    days = f"one customer in {caps.customer_days} days"
    for whose, cap, granted, reason in (
        ("one order", caps.order, facts.granted_unasked, ManagerReason.ORDER_CAP),
        (days, caps.customer, facts.of_customer, ManagerReason.CUSTOMER_CAP),
        ("the whole shop in 24 hours", caps.day, facts.of_day, ManagerReason.DAY_CAP),
    ):
        if cap:
            yield _cap(facts.amount, whose, cap, granted or Granted(), reason)


def _cap(amount: Money, whose: str, cap: Cap, granted: Granted, reason: ManagerReason) -> Weighed:
    count, money = granted.count + 1, Money(granted.minor + amount.minor, amount.currency)
    most = cap.money.get(amount.currency)
    words = [] if most is None else [str(Money(most, amount.currency))]
    words += [] if cap.count is None else [f"{cap.count} refunds"]
    above = (most is not None and money.minor > most) or (
        cap.count is not None and count > cap.count
    )
    return Weighed(
        f"without asking for {whose}, at most: {' and '.join(words) or 'any amount'}",
        f"{money} in {count} with this one",
        reason if above else None,
    )


def _four_eyes(facts: RefundFacts, policy: Policy) -> Weighed:
    currency = facts.amount.currency
    tier = policy.four_eyes_above.get(currency)
    if tier is None:
        return Weighed("a second person approves", f"never for {currency}")
    # Otherwise one manager alone could approve an expensive order in parts.
    together = facts.amount.minor + facts.seen_by_one.minor
    return Weighed(
        f"above {Money(tier, currency)} a second person approves",
        f"{Money(together, currency)} with what no second person saw",
        ManagerReason.FOUR_EYES if together > tier else None,
    )


def _drafted(facts: RefundFacts, policy: Policy, settled: bool) -> Weighed:
    """Weigh draft mode, which asks a manager if no other rule decides (`settled`: one does)."""
    currency = facts.amount.currency
    most = policy.unasked.refunds_above.get(currency)
    # As with the limit, refunds of the same order count together.
    together = facts.amount.minor + facts.granted_unasked.minor
    let_through = facts.reason in policy.unasked.reasons or (most is not None and together <= most)
    words = [] if most is None else [f"up to {Money(most, currency)} for an order"]
    words += [f"the reason {reason}" for reason in sorted(policy.unasked.reasons)]
    return Weighed(
        f"in draft mode a person decides; unasked: {', '.join(words) or 'nothing'}",
        f"{Money(together, currency)}, reason: {facts.reason.value}",
        None if settled or let_through else ManagerReason.DRAFT_MODE,
    )


def _final_items(facts: RefundFacts, policy: Policy) -> list[str]:
    return [
        line.item_id
        for line in facts.lines
        if line.final_sale or policy.is_final(line.item_id, line.category)
    ]


def _moment(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M UTC")


# --- refund facts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LineFacts:
    """The facts of an order line. `final_sale` is what the line itself says."""

    item_id: str
    category: str | None = None
    final_sale: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """Refunds that were approved without a manager: how many, and how much in minor units of the order's
    currency."""

    count: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True)
class RefundFacts:
    """The facts of a decision, gathered from rows while the order is locked.

    `remaining` is what was paid less every refund that was paid or is under way, here or elsewhere, and less
    `charged_back`, what the customer's bank took back. `lines` are those of the refund.
    `photos` counts the pictures that the customer sent in the conversation. `methods` are the payments'.
    `refused_before`: a refund of some of the same items was rejected, has expired or came back.
    `items_before`: a refund that was paid, or is under way, has units of the same items.
    `worth` is what the items and the shipping add up to; `amount` is less if less is left.
    `shared_payments` are the ids of payments that other orders name as well.
    `granted_unasked` counts for this order; `of_customer` and `of_day` are None without such a cap.
    `seen_by_one` is what refunds of this order hold that no second manager approved.
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
    refused_before: bool
    shared_payments: tuple[str, ...]
    granted_unasked: Granted
    of_customer: Granted | None
    of_day: Granted | None
    seen_by_one: Money
    items_before: bool = False
    worth: Money | None = None

    @property
    def categories(self) -> tuple[str | None, ...]:
        return tuple(line.category for line in self.lines)
