"""Offers part of the price instead of a refund, where the policy says so, and turns an accepted offer into a
refund. The order is locked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.deadline import end_of_day
from mailagent.domain.money import Money, read_money
from mailagent.domain.refunds.offer import (
    Offer,
    OfferStatus,
    lines_of,
    part_of,
    share_out,
    units_of,
    worth_of,
)
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import (
    ABOUT_GOODS,
    REFUSED_BEFORE,
    Approved,
    Decision,
    Declined,
    KeepOffers,
    ManagerReason,
    NeedsManager,
    Policy,
    return_by,
)
from mailagent.domain.refunds.policy_rules import RefundFacts
from mailagent.domain.refunds.refund import Refund, price_lines
from mailagent.domain.remedies.remedy import SENT_AGAIN, STANDING
from mailagent.proposals import proposal
from mailagent.proposals.claims import list_refused_tasks
from mailagent.proposals.facts import Asked, shipping_of
from mailagent.proposals.proposal import Proposal
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.refunds import offers, policies, refunds, remedies

_ACTIONS: Mapping[OfferStatus, audit.Action] = {
    OfferStatus.ACCEPTED: "offer accepted",
    OfferStatus.DECLINED: "offer declined",
    OfferStatus.LAPSED: "offer lapsed",
    OfferStatus.EXPIRED: "offer expired",
}


def with_promises(connection: sa.Connection) -> Policy:
    """Return the policy for the model's prompt. While an offer is open, it includes offers, even if the policy
    has none any more, because an offer stands until its date."""
    live = services.current()
    if live.policy.keep_offers is None and offers.has_any_open(connection, live.now()):
        return replace(live.policy, keep_offers=KeepOffers({}))
    return live.policy


def offer_instead(connection: sa.Connection, proposed: Proposal, asked: Asked) -> Offer | None:
    """Record an offer instead of the refund that is asked for, and return it; None if there is none to make.

    An item gets at most one offer, and only one that the policy would pay without a manager: it is a promise.
    A second request declines the open offer. An order has one open offer, so that a yes is unambiguous.
    """
    order_id, now = asked.order.order_id, services.current().now()
    known = offers.list_of_order(connection, order_id)
    is_open = offers.has_open(connection, order_id, now)
    for each in known:
        if each.is_open(now) and each.is_for(asked.item_ids):
            _close(connection, each, OfferStatus.DECLINED, audit.CUSTOMER, proposed.mail_id)
    offered = any(each.is_for(asked.item_ids) for each in known)
    if is_open or offered or proposed.proposed_by:
        return None
    offer = _offer(connection, proposed, asked)
    if offer is None or not _would_pay(connection, offer, asked):
        return None
    offers.record(connection, offer, proposed.key)
    _audit(connection, offer, "part of the price offered", audit.POLICY, proposed.mail_id)
    return offer


def _offer(connection: sa.Connection, proposed: Proposal, asked: Asked) -> Offer | None:
    live, order = services.current(), asked.order
    rules = live.policy.keep_offers
    categories = [line.category for line in asked.order_lines]
    percent = rules.percent_for(asked.reason, categories) if rules else None
    if rules is None or percent is None or any(line.is_rest for line in asked.lines):
        return None
    expires_at = end_of_day(live.now() + timedelta(days=rules.valid_days))
    if order.delivered_at is not None:  # after that the policy would decline it
        expires_at = min(expires_at, return_by(order.delivered_at, live.policy, categories))
    return Offer(
        offer_id=new_id("offer"),
        order_id=order.order_id,
        conversation_id=proposed.conversation_id,
        mail_id=proposed.mail_id,
        items=units_of(asked.item_ids, asked.lines),
        reason=asked.reason,
        percent=percent,
        amount=part_of(worth_of(asked.lines, order.currency), percent),
        status=OfferStatus.OPEN,
        offered_by=audit.POLICY,
        policy_version=policies.record(connection, live.policy, live.now()),
        offered_at=live.now(),
        expires_at=expires_at,
    )


def _would_pay(connection: sa.Connection, offer: Offer, asked: Asked) -> bool:
    if not offer.amount.minor or not offer.is_open(services.current().now()):
        return False
    _, decision = proposal.consider(connection, _part_of(asked, offer), offer.conversation_id)
    return isinstance(decision, Approved)


def _part_of(whole: Asked, offer: Offer) -> Asked:
    part, nothing = share_out(whole.lines, offer.amount), Money(0, offer.amount.currency)
    return replace(whole, lines=part, shipping=nothing, price=whole.worth)


def accept(
    connection: sa.Connection, offer: Offer, order: Order, proposed: Proposal
) -> Refund | None:
    """Turn an open offer into a refund, and return it. The policy decides again, on the order as it is now.
    Return None, and let the offer lapse, if nothing can be refunded for it any more."""
    asked = _as_refund(connection, offer, order, proposed.asked_at)
    if asked is not None:
        by_manager = offer.offered_by != audit.POLICY
        # A manager's offer is a promise, and the customer keeps the goods.
        despite = ABOUT_GOODS if by_manager else frozenset()
        facts, decision = proposal.consider(connection, asked, offer.conversation_id, despite)
        if by_manager and _is_known(connection, offer, facts, decision):
            decision = Approved()
            proposed = replace(proposed, decided_by=offer.offered_by)
        if not isinstance(decision, Declined):
            words = f"{offer.percent} % of the price, offered by the {offer.offered_by}"
            named = replace(proposed, accepts=words)
            refund = proposal.record(connection, named, asked, facts, decision)
            _close(
                connection, offer, OfferStatus.ACCEPTED, audit.CUSTOMER, proposed.mail_id, refund
            )
            return refund
        proposal.decline(connection, proposed, asked, facts, decision)
    _close(connection, offer, OfferStatus.LAPSED, audit.POLICY, proposed.mail_id)
    return None


def withdraw(
    connection: sa.Connection, order_id: str, mail_id: str, later: Collection[str]
) -> None:
    """Close the open offers of a locked order, which the customer does not want, unless they were made in
    answer to one of the mails `later`."""
    now = services.current().now()
    for offer in offers.list_of_order(connection, order_id):
        if offer.is_open(now) and offer.mail_id not in later:
            _close(connection, offer, OfferStatus.DECLINED, audit.CUSTOMER, mail_id)


def is_withdrawn(connection: sa.Connection, order_id: str, mail_ids: Sequence[str]) -> bool:
    """Return whether these mails declined an offer of an order."""
    action = _ACTIONS[OfferStatus.DECLINED]
    threads = {each.conversation_id for each in offers.list_of_order(connection, order_id)}
    found = (each for thread in threads for each in audit.list_details(connection, thread, action))
    return any(each["order_id"] == order_id and each["mail_id"] in mail_ids for each in found)


def expire(connection: sa.Connection, offer: Offer) -> bool:
    """Close an offer of a locked order if its date has passed; return whether that changed it."""
    if offer.status is not OfferStatus.OPEN or offer.is_open(services.current().now()):
        return False
    _close(connection, offer, OfferStatus.EXPIRED, audit.CLOCK, offer.mail_id)
    return True


def _is_known(
    connection: sa.Connection, offer: Offer, facts: RefundFacts, decision: Decision
) -> bool:
    """Return whether to pay a manager's offer without asking again: its full amount is left, the
    manager knew the policy's reasons and the external refunds, and no second manager has to approve."""
    if not isinstance(decision, NeedsManager) or decision.four_eyes:
        return isinstance(decision, Approved)
    before = refunds.find(connection, offer.instead_of or "")
    if before is None or _is_sent_since(connection, offer, before):
        return False
    known = {*before.policy_reasons, *REFUSED_BEFORE}
    rejected = audit.list_details(connection, before.refund_id, "refund rejected")
    if rejected and "elsewhere" in rejected[-1]:
        then, now = read_money(rejected[-1]["elsewhere"]), facts.elsewhere
        remainder = {ManagerReason.REMAINDER.value}
        is_less = facts.worth not in (None, facts.amount)  # less is left than was offered
        if is_less or (now is not None and now > then):
            known -= remainder
        else:
            known |= remainder
    return known.issuperset(each.value for each in decision.reasons)


def _is_sent_since(connection: sa.Connection, offer: Offer, before: Refund) -> bool:
    """Return whether an exchange or replacement of the offer's items was done after the offer, or
    was requested after the refund `before`, which the offer replaces."""
    return any(
        each.requested_at > before.requested_at
        or (each.decided_at is not None and each.decided_at > offer.offered_at)
        for each in remedies.list_of_order(connection, offer.order_id)
        if each.kind in SENT_AGAIN and each.status in STANDING and offer.is_for([*each.units])
    )


def _as_refund(
    connection: sa.Connection, offer: Offer, order: Order, asked_at: datetime | None
) -> Asked | None:
    earlier = refunds.list_of_order(connection, order.order_id)
    if lines_of(offer, order, earlier) is None:
        return None
    lines = price_lines(order, offer.wanted, earlier)
    shipping = shipping_of(order, lines, earlier)
    whole = Asked(order, lines, shipping, offer.reason, earlier, asked_at=asked_at)
    refused = list_refused_tasks(whole, remedies.list_of_order(connection, order.order_id))
    return _part_of(replace(whole, refused_before=refused), offer)


def _close(
    connection: sa.Connection,
    offer: Offer,
    status: OfferStatus,
    actor: str,
    mail_id: str,
    refund: Refund | None = None,
) -> None:
    offers.close(connection, offer, status, refund.refund_id if refund else None)
    _audit(connection, offer, _ACTIONS[status], actor, mail_id)


def _audit(
    connection: sa.Connection, offer: Offer, action: audit.Action, actor: str, mail_id: str
) -> None:
    details = {
        "order_id": offer.order_id,
        "percent": offer.percent,
        "amount": str(offer.amount),
        "mail_id": mail_id,
        "policy_version": offer.policy_version,
    }
    audit.record(
        connection, services.current().now(), actor, action, offer.conversation_id, details
    )
