"""The tool that asks for a refund: priced, decided and recorded under the order's lock.

Amounts and permissions come from rows, never from the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, Strict

from mailagent import services
from mailagent.domain.refunds.duplicates import find_covering, find_holding
from mailagent.domain.refunds.offer import Offer
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Approved, Declined, DeclineReason
from mailagent.domain.refunds.refund import (
    REFUSED,
    ItemsProblem,
    Refund,
    RefundReason,
    RefundStatus,
    WantedItem,
    price_lines,
)
from mailagent.mailers import Reader
from mailagent.proposals import claims, proposal
from mailagent.proposals.facts import Asked, shipping_of
from mailagent.proposals.offers import offer_instead
from mailagent.proposals.proposal import Proposal
from mailagent.store import audit
from mailagent.store.mail import inbound
from mailagent.store.refunds import offers, orders, refunds
from mailagent.workflows.steps.conversation.batch import is_waiting
from mailagent.workflows.tools.credit_choice import PayAs, choose_as_told, find_bonus_told
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    OrderUse,
    Output,
    Tool,
    case_closed_output,
    day,
    item_names,
    no_such_order_output,
    proposal_key,
)

ITEMS_MAX = 50
QUANTITY_MAX = 1_000_000

_NAME_IT = "Name the fact, which tells the customer its state."
_STILL_MONEY = "It stays money until a later mail chooses what the fact store_credit offers."
_DECLINED: Mapping[DeclineReason, str] = {
    DeclineReason.ORDER_CANCELLED: "The order was cancelled, and nothing is left of what was paid for"
    " it: it was given back before. Tell what the order's refunds say.",
    DeclineReason.NOTHING_LEFT: "Nothing of these items is left to refund: look at the order's"
    " refunds and tell the customer about those.",
    DeclineReason.ABOVE_BALANCE: "Nothing is left of what was paid for the order: all of it was given"
    " back before, here or elsewhere.",
    DeclineReason.WINDOW_CLOSED: "The return window of these items is over.",
    DeclineReason.CHARGED_BACK: "A payment of this order is disputed at the customer's bank, which sees"
    " to that money. A person has to look at it: call hand_over.",
    DeclineReason.FINAL_SALE: "Some of these items were sold as a final sale, which is not taken back"
    " for this reason. Items that were not can be asked for without them.",
    DeclineReason.PARCEL_ON_ITS_WAY: "The parcel is still on its way, and not late enough to count as lost."
    " Tell where it is: look at the order's parcels.",
    DeclineReason.PHOTO_NEEDED: "For this reason we need a photo that shows what is wrong, and none has"
    " come. The fact asks the customer for one. Once it has come, ask again.",
    DeclineReason.TOO_LATE: "The order is shipped or cancelled already, so this is not possible any more.",
}
_ALREADY: Mapping[RefundStatus, str] = {
    RefundStatus.EXPIRED: f"{_NAME_IT} If they still want the refund, call hand_over.",
    RefundStatus.REJECTED: f"{_NAME_IT} If they add a reason, a photo or what was overlooked, call hand_over.",
    RefundStatus.FAILED: "This refund could not be paid: call hand_over.",
}


class Item(Arguments):
    item_id: Id = Field(description="As look_at_order shows it.")
    quantity: Annotated[int, Field(ge=1, le=QUANTITY_MAX)] | None = Field(
        description="How many; null for all that can still be refunded."
    )


class ProposeRefund(Arguments):
    order_id: Id
    items: list[Item] = Field(min_length=1, max_length=ITEMS_MAX)
    reason: Annotated[RefundReason, Strict(False)]  # from its text


class ProposeRefundAs(ProposeRefund):
    pay_as: Annotated[PayAs, Strict(False)] = Field(
        description="store_credit only if they chose it after reading the fact store_credit, money only if"
        " they now choose it instead of credit; no_choice otherwise, which leaves a refund as it is."
    )


def propose_refund(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Price what the model proposes, have the policy decide, and record the decision, under the order's lock.

    The same transaction enqueues the refund's run. Returns what the model reads.
    """
    output = _propose(reader, arguments)
    order = reader.find_order(arguments["order_id"]) if "outcome" in output else None
    choice = reader.store_credit(order) if order else None
    if order is None or choice is None or choice["amount"] is None:
        return output
    asked_for_it = arguments.get("pay_as") == PayAs.STORE_CREDIT
    say = f"{output['say']} {_STILL_MONEY}" if asked_for_it else output["say"]
    return output | {"facts": [*output["facts"], f"store_credit/{order.order_id}"], "say": say}


def _propose(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    connection = reader.connection
    wanted = [WantedItem(**item) for item in arguments["items"]]
    order = orders.lock_of_conversation(connection, arguments["order_id"], reader.conversation_id)
    if order is None:
        return no_such_order_output(arguments["order_id"])
    items = sorted((want.item_id, want.quantity or 0) for want in wanted)
    key = proposal_key(reader, order.order_id, items)
    earlier, same = refunds.list_of_proposal(connection, order.order_id, key)
    offer = _offered(reader, order.order_id, wanted)
    if offer is not None:
        return offered_output(offer)
    if not is_waiting(connection, reader.mail_ids):
        return _repeated_output(same, order, wanted, earlier) if same else case_closed_output()
    pay_as = arguments.get("pay_as")
    if same is not None:
        same = choose_as_told(reader, order, same, earlier, pay_as)
        return _repeated_output(same, order, wanted, earlier)
    thread, mail_id = reader.conversation_id, reader.mail_ids[-1]
    proposed = Proposal(thread, mail_id, key)
    return _ask_for(reader, order, wanted, earlier, proposed, arguments)


def _repeated_output(
    same: Refund, order: Order, wanted: Sequence[WantedItem], earlier: Sequence[Refund]
) -> Output:
    before = [refund for refund in earlier if refund.refund_id < same.refund_id]
    return _proposed_output(same, order, wanted, before)


def _ask_for(
    reader: Reader,
    order: Order,
    wanted: Sequence[WantedItem],
    earlier: Sequence[Refund],
    proposed: Proposal,
    arguments: Mapping[str, Any],
) -> Output:
    reason = RefundReason(arguments["reason"])
    try:
        lines = price_lines(order, wanted, earlier)
    except ItemsProblem as problem:
        return bad_items_output(problem)
    asked = Asked(order, lines, shipping_of(order, lines, earlier), reason, earlier)
    pay_as = arguments.get("pay_as")
    same = _already_asked(reader, wanted, asked)
    if same is not None:
        chosen = choose_as_told(reader, order, same, earlier, pay_as)
        others = [each for each in earlier if each.refund_id != same.refund_id]
        return _add_earlier(already_requested_output(chosen, order), chosen, order, wanted, others)
    if pay_as == PayAs.STORE_CREDIT:
        bonus = find_bonus_told(reader, order, lines, earlier)
        # Without a policy of store credit nothing can offer it first.
        is_untold = bonus is None and services.current().policy.store_credit is not None
        proposed = replace(proposed, credit_bonus=bonus, asks_credit=is_untold)
    return _decide(reader, asked, wanted, proposed)


def _offered(reader: Reader, order_id: str, wanted: Sequence[WantedItem]) -> Offer | None:
    """Return the offer for one of these items made for these mails, or an open one made for a later mail."""
    items, now = [want.item_id for want in wanted], services.current().now()
    known = offers.list_of_order(reader.connection, order_id)
    made = [each for each in known if each.is_for(items)]
    is_open = [each.mail_id for each in made if each.is_open(now)]
    answered = {*reader.mail_ids, *inbound.list_later(reader.connection, is_open, reader.mail_ids)}
    return next((each for each in made if each.mail_id in answered), None)


def _decide(
    reader: Reader, asked: Asked, wanted: Sequence[WantedItem], proposed: Proposal
) -> Output:
    """Have the policy decide, and record its decision."""
    connection, order = reader.connection, asked.order
    asked = claims.by_mails(connection, asked, reader.conversation_id, reader.mails)
    facts, decision = proposal.consider(connection, asked, reader.conversation_id)
    if isinstance(decision, Declined):
        proposal.decline(connection, proposed, asked, facts, decision)
        return declined_output(decision, order.order_id)
    if proposed.asks_credit and isinstance(decision, Approved):
        proposal.offer_credit_first(connection, proposed, asked)
        return credit_not_offered_output(order.order_id)
    offer = offer_instead(connection, proposed, asked)
    if offer is not None:
        return offered_output(offer)
    refund = proposal.record(connection, proposed, asked, facts, decision)
    return _proposed_output(refund, order, wanted, asked.earlier)


def _already_asked(reader: Reader, wanted: Sequence[WantedItem], asked: Asked) -> Refund | None:
    """Return the earlier refund that covers this request, so that no new one is made; None if there is none.

    The newest mail requests an item only once, even if that was refused: a model that contradicts itself
    would otherwise be paid each time. Of older refunds, these count: one that holds all units, one of the
    same items that awaits approval, or one of exactly these lines that was refused in this conversation. Any
    other request goes to the policy, which asks a manager about units of the same item.
    """
    items = {want.item_id for want in wanted}
    touching = [refund for refund in reversed(asked.earlier) if items & set(refund.item_ids)]
    for refund in touching:
        if refund.mail_id == reader.mail_ids[-1]:
            return refund
    for refund in touching:
        if refund.holds_money and not asked.lines:
            return refund
        waits = refund.status is RefundStatus.AWAITING_APPROVAL
        if waits and not set(asked.item_ids).isdisjoint(refund.item_ids):
            return refund
        here = refund.conversation_id == reader.conversation_id
        if here and refund.status in REFUSED and refund.is_for(asked.lines):
            # A manager's offer that they do not take: a manager decides again.
            return None if offers.find_instead(reader.connection, refund.refund_id) else refund
    return None


def _proposed_output(
    refund: Refund, order: Order, wanted: Sequence[WantedItem], earlier: Sequence[Refund]
) -> Output:
    if refund.decided_by == audit.POLICY and refund.status is not RefundStatus.FAILED:
        output = proposed_output("approved", refund, order)
    elif refund.status is RefundStatus.AWAITING_APPROVAL:
        output = proposed_output("needs_manager", refund, order)
    else:
        output = already_requested_output(refund, order)
    return _add_earlier(output, refund, order, wanted, earlier)


def _add_earlier(
    output: Output,
    refund: Refund,
    order: Order,
    wanted: Sequence[WantedItem],
    earlier: Sequence[Refund],
) -> Output:
    """Return the output about `refund`, with what earlier refunds hold of the items that are wanted."""
    covering = find_covering(order, wanted, refund, earlier)
    same_items = find_holding([want.item_id for want in wanted], earlier)
    others = [each for each in same_items if each not in (*covering, refund)]
    told, say = dict(output), output["say"]
    if covering:
        told["already_covered"] = [_earlier(each, order) for each in covering]
        say += " What stands under already_covered was asked for before; the fact has its state."
    if others:
        told["same_items_before"] = [_earlier(each, order) for each in others]
        say += " Units of the same items were refunded before: see same_items_before."
    return told | {"say": say}


def proposed_output(outcome: str, refund: Refund, order: Order) -> Output:
    """Return the answer for a refund that is `approved`, or that `needs_manager`."""
    return {
        "outcome": outcome,
        "facts": [f"refund/{order.order_id}"],
        "order_id": order.order_id,
        "amount": str(refund.amount),
        "items": item_names(refund, order),
        "say": _NAME_IT,
    }


def offered_output(offer: Offer) -> Output:
    """Return the answer when part of the price is offered first."""
    return {
        "outcome": "offered",
        "facts": [f"offer/{offer.order_id}"],
        "order_id": offer.order_id,
        "amount": str(offer.amount),
        "percent": offer.percent,
        "say": "Nothing is refunded yet: the shop offers part of the price if they keep the items. Name"
        " the fact. If a later mail says yes, call accept_offer; if they want the refund, propose it again.",
    }


def credit_not_offered_output(order_id: str) -> Output:
    """Return the answer when store credit is chosen for a customer who has not read what it is worth."""
    return {
        "error": "store_credit_not_offered",
        "facts": [f"store_credit/{order_id}"],
        "say": "The customer has not been offered store credit yet. No refund was made: name the fact, which"
        " offers it. If a later mail chooses it, call this tool again.",
    }


def declined_output(decision: Declined, order_id: str) -> Output:
    """Return what propose_refund answers where the policy says no."""
    why = _DECLINED[decision.reason]
    if decision.ended_at is not None:
        why = f"{why} It ended on {day(decision.ended_at)}."
    return {
        "outcome": "declined",
        "facts": [f"declined/{order_id}", f"refund/{order_id}"],
        "reason": decision.reason.value,
        "say": f"{why} Name the fact declined/{order_id}.",
    }


def _earlier(refund: Refund, order: Order) -> Output:
    return {
        "items": item_names(refund, order),
        "quantities": _quantities(refund),
        "amount": str(refund.amount),
        "status": refund.status.value,
    }


def _quantities(refund: Refund) -> dict[str, int]:
    """Return how many units of each item a refund has, by the item's id."""
    units: dict[str, int] = {}
    for line, item_id in zip(refund.lines, refund.item_ids, strict=True):
        units[item_id] = units.get(item_id, 0) + line.quantity
    return units


def already_requested_output(refund: Refund, order: Order) -> Output:
    """Return what propose_refund answers for items that a refund of the order already covers."""
    return {
        "outcome": "already_requested",
        "facts": [f"refund/{order.order_id}"],
        "status": refund.status.value,
        "amount": str(refund.amount),
        "items": item_names(refund, order),
        "quantities": _quantities(refund),
        "say": f"This, or units of the same items, was asked for before, on order {order.order_id}, on"
        f" {day(refund.requested_at)}; nothing new was asked for now. {_ALREADY.get(refund.status, _NAME_IT)}"
        " Items that are not in it can be asked for without those that are. If they want more units"
        " of the same item than that, or others, call hand_over.",
    }


def bad_items_output(problem: ItemsProblem) -> Output:
    """Return the answer to a proposal whose items are not those of the order."""
    say = f"Nothing was done: {problem}. Look at the order again and use its item ids."
    return {"error": "bad_arguments", "say": say}


TOOL = Tool(
    "propose_refund",
    ProposeRefund,
    "Ask for a refund of items of one order. The shop computes the amount and decides at once:"
    " approved, needs a manager, or declined. Call it once per order, with all items together.",
    propose_refund,
    order_use=OrderUse.DECIDE,
    arguments_for=lambda policy: ProposeRefundAs if policy.store_credit else ProposeRefund,
)
