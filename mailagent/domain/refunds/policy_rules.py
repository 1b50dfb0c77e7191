"""How the policy decides on a refund: its rules in order, each over facts from rows.

Amounts, balances and dates come from rows; only the reason comes from the model. The facts are stored with
the decision, so that people can see why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

# The clock of the shop's own system may be ahead of ours, or a day be written without its hour.
AHEAD_MOST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Weighed:
    """One rule, the fact that it looked at, and what it comes to: None lets the refund pass."""

    rule: str
    fact: str
    outcome: DeclineReason | ManagerReason | None = None


def decide(facts: RefundFacts, policy: Policy, now: datetime) -> Decision:
    """Decide on a proposed refund: a refusal first, then what needs a person, else approved."""
    outcomes = [each.outcome for each in weigh(facts, policy, now)]
    for outcome in outcomes:
        if isinstance(outcome, DeclineReason):
            return Declined(outcome, _ended_at(facts, policy, outcome))
    reasons = tuple(each for each in outcomes if isinstance(each, ManagerReason))
    if not reasons:
        return Approved()
    return NeedsManager(reasons, four_eyes=ManagerReason.FOUR_EYES in reasons)


def weigh(facts: RefundFacts, policy: Policy, now: datetime) -> tuple[Weighed, ...]:
    """Return every rule in its order, with its fact and its outcome."""
    rules = _rules(facts, policy, now)
    if not policy.drafts_refunds:
        return rules
    return (*rules, _drafted(facts, policy, any(each.outcome for each in rules)))


def _rules(facts: RefundFacts, policy: Policy, now: datetime) -> tuple[Weighed, ...]:
    return (
        *(rule(facts, policy, now) for rule in _REFUSALS),
        *(_of_return(rule(facts, policy, now), facts) for rule in _RETURNS),
        *_limits(facts, policy),
        _arrival(facts, now),
        *_circumstances(facts, policy),
        *_always(facts, policy),
        *_caps(facts, policy),
        _four_eyes(facts, policy),
    )


def _ended_at(facts: RefundFacts, policy: Policy, reason: DeclineReason) -> datetime | None:
    if reason is not DeclineReason.WINDOW_CLOSED or facts.delivered_at is None:
        return None
    return return_by(facts.delivered_at, policy, facts.categories)


# --- what is refused ----------------------------------------------------------------------------


def _cancelled(facts: RefundFacts, _policy: Policy, _now: datetime) -> Weighed:
    nothing = _is_cancelled(facts) and facts.remaining.minor <= 0
    return Weighed(
        "a cancelled order of which nothing is left is not refunded",
        f"the order is {facts.order_status.value}; {facts.remaining} is left",
        DeclineReason.ORDER_CANCELLED if nothing else None,
    )


def _is_cancelled(facts: RefundFacts) -> bool:
    return facts.order_status is OrderStatus.CANCELLED


def _of_return(weighed: Weighed, facts: RefundFacts) -> Weighed:
    """Return a rule on what is sent back; nothing is, where the order was cancelled."""
    return replace(weighed, outcome=None) if _is_cancelled(facts) else weighed


def _charged_back(facts: RefundFacts, _policy: Policy, _now: datetime) -> Weighed:
    # Beside a chargeback a refund would pay twice; what is left of other payments is for a person.
    return Weighed(
        "a charged back payment is the bank's matter",
        f"charged back: {facts.charged_back}",
        DeclineReason.CHARGED_BACK if facts.charged_back.minor > 0 else None,
    )


def _something(facts: RefundFacts, _policy: Policy, _now: datetime) -> Weighed:
    return Weighed(
        "something is left to refund of the items",
        f"they come to {facts.amount}",
        DeclineReason.NOTHING_LEFT if facts.amount.minor <= 0 else None,
    )


def _balance(facts: RefundFacts, _policy: Policy, _now: datetime) -> Weighed:
    above = facts.amount.minor > facts.remaining.minor
    return Weighed(
        "never more than is left of what was paid",
        f"{facts.amount} of {facts.remaining} that is left",
        DeclineReason.ABOVE_BALANCE if above else None,
    )


def _final_sale(facts: RefundFacts, policy: Policy, _now: datetime) -> Weighed:
    final = _final_items(facts, policy)
    refused = bool(final) and facts.reason not in SHOP_AT_FAULT
    return Weighed(
        "a final sale is not taken back, unless the shop is at fault",
        f"final sale: {', '.join(final) or 'none'}; reason: {facts.reason.value}",
        DeclineReason.FINAL_SALE if refused else None,
    )


def _window(facts: RefundFacts, policy: Policy, now: datetime) -> Weighed:
    days = policy.window_days(facts.categories)
    rule = f"within the return window, the shortest of the items': {days} days"
    if facts.delivered_at is None:
        return Weighed(rule, "not delivered yet")
    until = return_by(facts.delivered_at, policy, facts.categories)
    fact = f"delivered {_moment(facts.delivered_at)}, ends {_moment(until)}"
    return Weighed(rule, fact, DeclineReason.WINDOW_CLOSED if now > until else None)


def _photo(facts: RefundFacts, policy: Policy, _now: datetime) -> Weighed:
    missing = facts.reason in policy.photo_reasons and facts.photos == 0
    names = ", ".join(sorted(policy.photo_reasons)) or "none"
    return Weighed(
        f"reasons that need a photo: {names}",
        f"reason: {facts.reason.value}; photos: {facts.photos}",
        DeclineReason.PHOTO_NEEDED if missing else None,
    )


# The first that refuses is told. The photo comes last: nobody is asked for one in vain.
_REFUSALS: tuple[Callable[[RefundFacts, Policy, datetime], Weighed], ...] = (
    _cancelled,
    _charged_back,
    _something,
    _balance,
)
_RETURNS: tuple[Callable[[RefundFacts, Policy, datetime], Weighed], ...] = (
    _final_sale,
    _window,
    _photo,
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
        # Otherwise a dear order could be emptied unasked, one line at a time.
        ManagerReason.ABOVE_LIMIT_TOGETHER if together > limit and not above else None,
    )


def _arrival(facts: RefundFacts, now: datetime) -> Weighed:
    rule, fact = "the order was delivered", f"the order is {facts.order_status.value}"
    arrived = facts.order_status is OrderStatus.DELIVERED
    if facts.delivered_at is not None and facts.delivered_at > now + AHEAD_MOST:
        # A date that is wrong, such as "never", would keep the return window open for ever.
        fact, arrived = f"{fact}, as of {_moment(facts.delivered_at)}, which is to come", False
    asked_anyway = arrived or _is_cancelled(facts)
    return Weighed(rule, fact, None if asked_anyway else ManagerReason.NOT_DELIVERED)


def _circumstances(facts: RefundFacts, policy: Policy) -> Iterator[Weighed]:
    yield Weighed(
        # The shop's own system may have given it back without a word to us.
        "what is left of a cancelled order is for a person",
        f"the order is {facts.order_status.value}",
        ManagerReason.CANCELLED if _is_cancelled(facts) else None,
    )
    yield Weighed(
        # Otherwise what a manager said no to is paid when it is asked for in part.
        "nothing of it was refused before, or came back",
        "some of it was" if facts.refused_before else "nothing was",
        ManagerReason.REFUSED_BEFORE if facts.refused_before else None,
    )
    yield Weighed(
        # Otherwise whoever asks once more for one of three mugs is paid for a second one.
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
        # Each of the orders would give it back in full.
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
    # Otherwise one person alone could approve a dear order in parts.
    together = facts.amount.minor + facts.seen_by_one.minor
    return Weighed(
        f"above {Money(tier, currency)} a second person approves",
        f"{Money(together, currency)} with what no second person saw",
        ManagerReason.FOUR_EYES if together > tier else None,
    )


def _drafted(facts: RefundFacts, policy: Policy, settled: bool) -> Weighed:
    """Weigh draft mode, which asks a person only where no rule does (`settled`: one has spoken)."""
    currency = facts.amount.currency
    most = policy.unasked.refunds_above.get(currency)
    # As with the limit: an order must not be emptied unasked, one line at a time.
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
    """What the rules look at in an order line. `final_sale` is what the line itself says."""

    item_id: str
    category: str | None = None
    final_sale: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """What was refunded without a person's decision, or is about to be: how many refunds, and how much
    in minor units of the order's currency."""

    count: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True)
class RefundFacts:
    """What the decision is based on, gathered from rows while the order is locked.

    `remaining` is what was paid less every refund that was paid or is under way, here or elsewhere,
    and less `charged_back`, what the customer's bank takes back. `lines` are those of the refund.
    `photos` is how many pictures the customer sent in the conversation. `methods` are the payments'.
    `refused_before`: a refund that covers some of the same items was rejected or has expired.
    `items_before`: a refund that was paid, or is under way, has units of the same items.
    `worth` is what the items and the carriage come to; `amount` is less where less is left.
    `shared_payments` are the ids of payments that other orders name, too.
    `granted_unasked` counts for this order; `of_customer` and `of_day` are None where no cap asks.
    `seen_by_one` is what refunds of this order hold that no second person saw.
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
