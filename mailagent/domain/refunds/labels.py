"""English labels of reasons and states, and the policy in sentences, for people of the shop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mailagent.domain.money import Money
from mailagent.domain.refunds.policy import Cap, DeclineReason, ManagerReason, Named, Policy
from mailagent.domain.refunds.policy_rules import Exceeded
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.text import Fill, fill

REFUND_REASONS: Mapping[RefundReason, str] = {
    RefundReason.DAMAGED: "arrived damaged or stopped working",
    RefundReason.WRONG_ITEM: "the wrong item came",
    RefundReason.NOT_AS_DESCRIBED: "not as described",
    RefundReason.NOT_DELIVERED: "never arrived",
    RefundReason.CHANGED_MIND: "changed their mind",
    RefundReason.OTHER: "another reason",
}

DECLINE_REASONS: Mapping[DeclineReason, str] = {
    DeclineReason.ORDER_CANCELLED: (
        "The order was cancelled, and nothing is left of what was paid for it."
    ),
    DeclineReason.CHARGED_BACK: "The customer's bank is taking a payment back.",
    DeclineReason.NOTHING_LEFT: "Nothing is left to refund of these items.",
    DeclineReason.ABOVE_BALANCE: "Nothing is left of what was paid.",
    DeclineReason.FINAL_SALE: "Some of it is on final sale.",
    DeclineReason.WINDOW_CLOSED: "The return window is over.",
    DeclineReason.PARCEL_ON_ITS_WAY: "The parcel is on its way, and not late enough yet.",
    DeclineReason.PHOTO_NEEDED: "A photo is needed for this reason, and none came.",
    DeclineReason.TOO_LATE: "The order is shipped or cancelled.",
}

MANAGER_REASONS: Mapping[str, str] = {
    ManagerReason.ABOVE_LIMIT: "The amount is above what is refunded without asking.",
    ManagerReason.ABOVE_LIMIT_TOGETHER: (
        "Together with what this order got before, it is above what one order gets without asking."
    ),
    ManagerReason.NO_LIMIT_FOR_CURRENCY: "The policy sets no limit for this currency.",
    ManagerReason.NOT_DELIVERED: (
        "The order or a parcel of it has not been delivered, or its date of delivery is still to come."
    ),
    ManagerReason.PARCEL_DELIVERED: (
        "The customer says that it never arrived, but the order or a parcel of it counts as delivered."
    ),
    ManagerReason.CANCELLED: (
        "The order was cancelled, and some of what was paid for it was not given back, as far as we"
        " know. Please look whether the shop's own system has refunded it."
    ),
    ManagerReason.REJECTED_BEFORE: "A refund of some of the same items was rejected before.",
    ManagerReason.EXPIRED_BEFORE: (
        "An earlier refund of some of the same items expired without a decision."
    ),
    ManagerReason.CAME_BACK: "A refund of some of the same items came back after it was paid.",
    ManagerReason.LEFT_OUT: "A manager left some of the same items out of an earlier refund.",
    ManagerReason.NOT_SENT_AGAIN: "A manager said that some of the same items could not be sent again.",
    ManagerReason.DECLINED_OTHERWISE: (
        "In answer to the same mail, the policy declined some of the same items for another reason."
    ),
    ManagerReason.WITHDRAWN_LATER: (
        "A later mail of the customer withdraws it, or asks for something else on the order."
    ),
    ManagerReason.ITEM_AGAIN: (
        "Units of the same item were refunded or sent again before, or are about to be: perhaps the"
        " customer is only asking once more."
    ),
    ManagerReason.REMAINDER: (
        "Money was refunded elsewhere, perhaps for the same items; or less than they are worth is left of"
        " what was paid, and only that is asked for."
    ),
    ManagerReason.PAYMENT_SHARED: (
        "Another order names the same payment. Please look what it was really for."
    ),
    ManagerReason.FINAL_SALE: (
        "Some of it is on final sale, but the customer says that the fault is ours."
    ),
    ManagerReason.PHOTO_UNSURE: (
        "A photo is needed for this reason, and what came may be the logo of a signature. Please look."
    ),
    ManagerReason.REASON: "Refunds for this reason always need a person.",
    ManagerReason.CATEGORY: "Items of such a category always need a person.",
    ManagerReason.ITEM: "Some of these items always need a person.",
    ManagerReason.METHOD: "The order was paid in a way that always needs a person.",
    ManagerReason.ORDER_CAP: "The order has had as much as one order gets without asking.",
    ManagerReason.CUSTOMER_CAP: "The customer has had as much as one customer gets without asking.",
    ManagerReason.DAY_CAP: "The shop has granted as much within 24 hours as it does without asking.",
    ManagerReason.FOUR_EYES: "The amount is so high that a second person approves after the first.",
    ManagerReason.DRAFT_MODE: (
        "The shop is in draft mode: refunds wait for a person that would otherwise be paid at once."
    ),
}


def tell_reasons(
    reasons: Iterable[str], exceeded: Mapping[str, Exceeded], currency: str, _: Fill = fill
) -> list[str]:
    """Return a text of one or more sentences for each reason why a manager is asked. If a limit is exceeded,
    the first says by how much. `exceeded`: the limits by reason, from `list_exceeded`. `_` translates."""
    return [" ".join(_tell_reason(each, exceeded.get(each), currency, _)) for each in reasons]


def _tell_reason(reason: str, found: Exceeded | None, currency: str, _: Fill) -> Iterator[str]:
    excess = list(_excess(found, currency, _))
    yield from excess
    if excess and reason == ManagerReason.ABOVE_LIMIT_TOGETHER:
        yield _("Earlier refunds of this order and goods sent again are counted.")
    elif not excess or reason != ManagerReason.ABOVE_LIMIT:  # the excess says as much
        yield _(MANAGER_REASONS.get(reason, reason))


def _excess(found: Exceeded | None, currency: str, _: Fill) -> Iterator[str]:
    if found is None:
        return
    if found.limit is not None and found.total > found.limit:
        total, limit = Money(found.total, currency), Money(found.limit, currency)
        yield _(
            "%(total)s is %(by)s above the limit of %(limit)s.",
            total=total,
            by=total - limit,
            limit=limit,
        )
    if found.most is not None and found.count is not None and found.count > found.most:
        yield _(
            "It is number %(count)s without asking; the limit is %(most)s.",
            count=found.count,
            most=found.most,
        )


REFUND_STATES: Mapping[RefundStatus, str] = {
    RefundStatus.AWAITING_APPROVAL: "waits for a manager",
    RefundStatus.APPROVED: "approved, not yet paid",
    RefundStatus.PAID: "paid",
    RefundStatus.REJECTED: "rejected",
    RefundStatus.EXPIRED: "expired without a decision",
    RefundStatus.WITHDRAWN: "withdrawn",
    RefundStatus.FAILED: "failed",
}


# --- the policy in sentences ----------------------------------------------------------------------


def describe_policy(policy: Policy) -> Iterator[str]:
    """Yield the policy's rules as English sentences, in the order in which they decide."""
    yield f"Version: {policy.version}."
    yield from _refusals(policy)
    yield from _persons(policy)
    yield from _money(policy)


def _refusals(policy: Policy) -> Iterator[str]:
    yield "Nothing is refunded of an order that is cancelled or charged back, nor more than was paid."
    yield f"Items come back within {policy.return_window_days} days of delivery."
    for category, days in sorted(policy.return_window_days_by_category.items()):
        yield f"Items of the category {category!r} come back within {days} days."
    yield "A final sale is not taken back; where the fault is ours, a person decides."
    for what, names in _items(policy.final_sale):
        yield f"On final sale, beside what order lines say: {what} {names}."
    if policy.photo_reasons:
        yield f"A photo is needed where the reason is: {_list(policy.photo_reasons)}."


def _persons(policy: Policy) -> Iterator[str]:
    yield (
        "Granted without asking, for all refunds of an order and goods sent again: up to "
        f"{_amounts(policy.limits)}; nothing in other currencies."
    )
    yield "A person decides on an order that was not delivered, and on what was refused before."
    late = policy.late_parcels
    if late.ask_after_days is not None:
        yield f"Nothing is refunded for a parcel on its way until it is {late.ask_after_days} days late."
    if late.refund_after_days is not None:
        yield f"A parcel that is {late.refund_after_days} days late is refunded without asking."
    for what, names in _items(policy.always_ask):
        yield f"A person always decides on {what} {names}."
    if policy.always_ask.reasons:
        words = "; ".join(sorted(REFUND_REASONS[each] for each in policy.always_ask.reasons))
        yield f"A person always decides where the reason is: {words}."
    if policy.always_ask.methods:
        yield f"A person always decides where it was paid by {_list(policy.always_ask.methods)}."
    caps = policy.caps
    for whose, cap in (
        ("one order", caps.order),
        (f"one customer in {caps.customer.days} days", caps.customer),
        ("the whole shop in 24 hours", caps.day),
    ):
        if cap:
            yield f"Refunded or sent again without asking for {whose}: at most {_cap(cap)}."
    if policy.four_eyes_above:
        yield f"A second person approves above {_amounts(policy.four_eyes_above)}."
    if not policy.drafts_refunds:
        return
    yield "Draft mode: a person decides on every refund that would be paid without asking."
    if policy.draft.unasked_up_to:
        yield f"Draft mode leaves out up to {_amounts(policy.draft.unasked_up_to)} for an order."
    if policy.draft.unasked_reasons:
        words = "; ".join(sorted(REFUND_REASONS[each] for each in policy.draft.unasked_reasons))
        yield f"Draft mode leaves out refunds where the reason is: {words}."


def _money(policy: Policy) -> Iterator[str]:
    shipping = (
        "refunded with the last item of an order" if policy.refund_shipping else "not refunded"
    )
    yield f"Shipping is {shipping}."
    if policy.goodwill:
        yield (
            f"The agent may give a discount of up to {policy.goodwill.most_percent} % on the next order,"
            f" once per order; its code is good for {policy.goodwill.valid_days} days."
        )
    if first := policy.return_first:
        words = "; ".join(sorted(REFUND_REASONS[each] for each in first.reasons))
        yield (
            f"Paid when the goods are back, within {first.days} days, where the reason is: {words}."
        )
        if first.restock_reasons:
            words = "; ".join(sorted(REFUND_REASONS[each] for each in first.restock_reasons))
            yield f"They are put in stock again where it is: {words}."
    remedies = policy.remedies
    if remedies.offered:
        kinds = _list(REMEDY_KINDS[each] for each in remedies.offered)
        yield f"People of the shop do this within {remedies.task_days} days: {kinds}."
    if offers := policy.keep_offers:
        yield (
            "Instead of a refund, a manager may offer part of the price, for"
            f" {offers.valid_days} days, if the customer keeps the items."
        )
        for reason, percent in sorted(offers.percent_by_reason.items()):
            yield (
                f"Where the reason is {REFUND_REASONS[reason]!r}, {percent} % of the price is offered first,"
                f" for {offers.valid_days} days, if the customer keeps the items."
            )
        for category, percent in sorted(offers.percent_by_category.items()):
            yield f"Of the category {category!r} that is {percent} %."
    if policy.store_credit:
        bonus = policy.store_credit.bonus_percent
        more = f", worth {bonus} % more" if bonus else ""
        yield f"Customers may choose store credit instead of money{more}."
    for method, days in sorted(policy.expected_days.items()):
        within = f"within {days} business {'day' if days == 1 else 'days'}" if days else "at once"
        yield f"Money that goes back by {method} is expected {within}."


def _items(named: Named) -> Iterator[tuple[str, str]]:
    if named.categories:
        yield "the categories", _list(named.categories)
    if named.item_ids:
        yield "the items", _list(named.item_ids)


def _cap(cap: Cap) -> str:
    words = [_amounts(cap.money)] if cap.money else []
    words += [] if cap.count is None else [f"{cap.count} requests"]
    return " and ".join(words)


def _amounts(amounts: Mapping[str, int]) -> str:
    listed = sorted(amounts.items())
    return ", ".join(str(Money(minor, currency)) for currency, minor in listed) or "nothing"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
