"""What the tools answer, as plain JSON rendered from domain values.

Only what the model needs: no payment ids, no addresses. `say` holds sentences that are true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mailagent.agent.reply.order_amounts import item_amounts, order_amounts
from mailagent.domain.money import Money
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.order import Order, OrderLine
from mailagent.domain.refunds.policy import Declined, DeclineReason, Policy, return_by
from mailagent.domain.refunds.refund import ItemsProblem, Refund, RefundStatus, taken_units

Output = dict[str, Any]

_NO_MONEY = "Do not say or hint that money was or will be sent."
_ON_ITS_WAY = (
    "Tell the customer that the refund is approved and on its way, and that a receipt follows by"
    " mail once it is paid. Do not say that it was paid, nor when the money arrives."
)
_WITH_A_MANAGER = (
    "Tell the customer that a manager has to decide on this refund and that they will hear from us"
    " by mail. Do not promise that it will be approved or paid."
)
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
    DeclineReason.PHOTO_NEEDED: "For this reason we need a photo that shows what is wrong, and none has"
    " come. Ask the customer to answer this mail with a photo attached. Once it has come, propose the"
    " refund again.",
}
_ALREADY: Mapping[RefundStatus, str] = {
    RefundStatus.AWAITING_APPROVAL: _WITH_A_MANAGER,
    RefundStatus.APPROVED: _ON_ITS_WAY,
    RefundStatus.PAID: "Tell the customer that this refund was paid; the receipt went to them by"
    " mail.",
    RefundStatus.REJECTED: f"Tell the customer that a manager decided against it. {_NO_MONEY}",
    RefundStatus.EXPIRED: "Tell the customer that no manager decided in time, so the request"
    f" lapsed. {_NO_MONEY} If they still want the refund, call hand_over.",
    RefundStatus.WITHDRAWN: "Tell the customer that this request was withdrawn."
    f" {_NO_MONEY} If they want it after all, they can ask again in a new mail.",
    RefundStatus.FAILED: f"This refund could not be paid. {_NO_MONEY} Call hand_over.",
}


def orders_output(orders: Sequence[Order], total: int) -> Output:
    """Return what find_my_orders answers: the newest orders, and how many more there are."""
    return {
        "orders": [
            {
                "order_id": order.order_id,
                "placed_at": _day(order.placed_at),
                "status": order.status.value,
                "paid": str(order.paid),
                "items": [line.name for line in order.lines],
            }
            for order in orders
        ],
        "more": max(0, total - len(orders)),
    }


def order_output(
    order: Order, refunds: Sequence[Refund], policy: Policy, elsewhere_minor: int = 0
) -> Output:
    """Return what look_at_order answers. `refunds` are all refunds of the order, whatever state;
    `elsewhere_minor` was given back without us."""
    held = sum(refund.held.minor for refund in refunds) + elsewhere_minor
    delivered_at = order.delivered_at
    return {
        "order_id": order.order_id,
        "status": order.status.value,
        "placed_at": _day(order.placed_at),
        "delivered_at": _day(delivered_at) if delivered_at else None,
        "return_by": _day(return_by(delivered_at, policy)) if delivered_at else None,
        "items": _items(order, refunds, policy),
        "paid": str(order.paid),
        "refunded_or_under_way": str(Money(held, order.currency)),
        **order_amounts(order, refunds, policy, elsewhere_minor),
        "refunds": [
            {
                "items": _names(refund, order),
                "amount": str(refund.amount),
                "status": refund.status.value,
                "requested_at": _day(refund.requested_at),
            }
            for refund in refunds
        ],
    }


def _items(order: Order, refunds: Sequence[Refund], policy: Policy) -> list[Output]:
    """One entry per item: an item that stands on two lines is asked for once, by its id."""
    taken = taken_units(refunds)
    grouped: dict[str, list[OrderLine]] = {}
    for line in order.lines:
        grouped.setdefault(line.item_id, []).append(line)
    shown = []
    for item_id, lines in grouped.items():
        left = sum(max(0, line.quantity - taken.get(line.line_no, 0)) for line in lines)
        item = {
            "item_id": item_id,
            "name": lines[0].name,
            "quantity": sum(line.quantity for line in lines),
            "refundable": left,
            "unit_price": ", ".join(dict.fromkeys(str(line.unit_price) for line in lines)),
        }
        amounts = item_amounts(order, lines, refunds, left)
        shown.append({**item, **amounts, **_terms(order, lines, policy)})
    return shown


def _terms(order: Order, lines: Sequence[OrderLine], policy: Policy) -> Output:
    """What of the policy is different for an item than for the rest of the order."""
    terms: Output = {}
    categories = [line.category for line in lines]
    if order.delivered_at and policy.window_days(categories) != policy.window_days():
        terms["return_by"] = _day(return_by(order.delivered_at, policy, categories))
    if any(line.final_sale or policy.is_final(line.item_id, line.category) for line in lines):
        terms["final_sale"] = True
    return terms


def case_closed_output() -> Output:
    """The mail was answered, or went to people, before this call: nothing is proposed for it."""
    return {
        "error": "case_closed",
        "say": "This mail has been dealt with already. Write one short closing sentence.",
    }


def no_such_order_output() -> Output:
    """Return the answer for an order that does not exist or is somebody else's: the same bytes."""
    return {
        "error": "no_such_order",
        "say": "This customer has no such order. Ask them to check the number, or to write from the"
        " address that they ordered with. Say nothing else about that order.",
    }


def not_verified_output() -> Output:
    """Return the answer of every tool while it is not proven who wrote."""
    return {
        "error": "sender_not_verified",
        "say": "We do not know yet that this mail is really from its sender. Ask the customer to"
        " answer this mail, which shows us that the mailbox is theirs. Say nothing about any order.",
    }


def approved_output(refund: Refund, order: Order) -> Output:
    """Return what propose_refund answers for a refund that needs nobody's decision."""
    return _proposed("approved", refund, order, _ON_ITS_WAY)


def needs_manager_output(refund: Refund, order: Order) -> Output:
    """Return what propose_refund answers for a refund that waits for a manager."""
    return _proposed("needs_manager", refund, order, _WITH_A_MANAGER)


def _proposed(outcome: str, refund: Refund, order: Order, say: str) -> Output:
    return {
        "outcome": outcome,
        "order_id": order.order_id,
        "amount": str(refund.amount),
        "items": _names(refund, order),
        "say": say,
    }


def declined_output(decision: Declined) -> Output:
    """Return what propose_refund answers where the policy says no."""
    why = _DECLINED[decision.reason]
    if decision.ended_at is not None:
        why = f"{why} It ended on {_day(decision.ended_at)}."
    say = f"{why} Explain this kindly. {_NO_MONEY}"
    return {"outcome": "declined", "reason": decision.reason.value, "say": say}


def with_earlier(
    output: Output, covering: Sequence[Refund], others: Sequence[Refund], order: Order
) -> Output:
    """Return what propose_refund answers where earlier refunds cover a part of what was wanted, and
    where `others` have units of the same items."""
    told, say = dict(output), output["say"]
    if covering:
        told["already_covered"] = [_earlier(refund, order) for refund in covering]
        say += " What stands under already_covered was asked for before: tell it as it is there."
    if others:
        told["same_items_before"] = [_earlier(refund, order) for refund in others]
        say += " Mention what units of the same items were refunded before: see same_items_before."
    return told | {"say": say}


def _earlier(refund: Refund, order: Order) -> Output:
    return {
        "items": _names(refund, order),
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
        "status": refund.status.value,
        "amount": str(refund.amount),
        "items": _names(refund, order),
        "quantities": _quantities(refund),
        "say": f"This, or units of the same items, was asked for before, on order {order.order_id}, on"
        f" {_day(refund.requested_at)}; nothing new was asked for now. {_ALREADY[refund.status]}"
        " Items that are not in it can be asked for without those that are. If they want more units"
        " of the same item than that, or others, call hand_over.",
    }


def bad_items_output(problem: ItemsProblem) -> Output:
    """Return the answer to a proposal whose items are not those of the order."""
    say = f"Nothing was done: {problem}. Look at the order again and use its item ids."
    return {"error": "bad_arguments", "say": say}


def bad_arguments_output(problem: str) -> Output:
    """Return the answer to arguments that do not fit the tool's schema."""
    return {
        "error": "bad_arguments",
        "say": f"Nothing was done: {problem}. Correct the arguments and call the tool again.",
    }


def unknown_tool_output(names: Sequence[str]) -> Output:
    """Return the answer to a tool that does not exist; it does not repeat the model's word for it."""
    return {
        "error": "unknown_tool",
        "say": f"Nothing was done: there is no such tool. The tools are {', '.join(names)}.",
    }


def one_at_a_time_output() -> Output:
    """Return the answer to every call but the first where a server let the model make several."""
    return {
        "error": "one_call_at_a_time",
        "say": "Nothing was done for this call: make one call, wait for its output, then the next.",
    }


def _names(refund: Refund, order: Order) -> list[str]:
    refunded = {part.line_no for part in refund.lines}
    return list(dict.fromkeys(line.name for line in order.lines if line.line_no in refunded))


def _day(instant: datetime) -> str:
    return instant.date().isoformat()


# --- goodwill outputs -----------------------------------------------------------------------------


_NO_OTHER = "Do not promise any discount beside it, and no voucher or replacement."


def offered_output(code: GoodwillCode) -> Output:
    """Return the answer when a discount was given, now or by the same call before."""
    return {
        "outcome": "offered",
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": _last_day(code),
        "say": f"Tell the customer that they get {code.percent}% off a later order, and that the code"
        " and its last day stand below your text, in the same mail. The shop adds them; do not"
        f" write a code yourself. {_NO_OTHER}",
    }


def already_given_output(code: GoodwillCode) -> Output:
    """Return the answer for an order, or a mail, that has had its discount."""
    return {
        "outcome": "already_given",
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": _last_day(code),
        "say": "There is one discount for an order, and one in answer to a mail, and this one was"
        f" given: {code.percent}% off a later order. The customer has its code by mail. {_NO_OTHER}",
    }


def not_for_this_order_output(order_id: str) -> Output:
    """Return the answer for an order that was cancelled, or whose money the customer's bank took back."""
    return {
        "error": "not_for_this_order",
        "order_id": order_id,
        "say": "Nothing was given: there is no discount for an order that was cancelled or charged"
        f" back. {_NO_OTHER}",
    }


def above_cap_output(most_percent: int) -> Output:
    """Return the answer to more than the shop gives."""
    return {
        "error": "above_cap",
        "most_percent": most_percent,
        "say": f"Nothing was given: the most is {most_percent} percent.",
    }


def _last_day(code: GoodwillCode) -> str:
    return code.expires_at.date().isoformat()


# --- withdrawal outputs ---------------------------------------------------------------------------


_TOO_LATE: Mapping[RefundStatus, str] = {
    RefundStatus.APPROVED: "It is approved and on its way, and cannot be taken back here. Tell the"
    " customer so; a receipt follows by mail once it is paid.",
    RefundStatus.PAID: "It was paid, and cannot be taken back here. Tell the customer so; the"
    " receipt went to them by mail.",
}


def withdrawn_output(order_id: str, gone: Sequence[Refund], others: Sequence[Refund]) -> Output:
    """Return the answer when `gone` were withdrawn, now or before; `others` are approved or paid."""
    say = (
        f"Tell the customer that their request for a refund on order {order_id} is withdrawn, as they"
        " wished: nobody decides on it any more and no money is sent for it. If they want it after"
        " all, they can ask again in a new mail."
    )
    if others:
        say += " What stands under not_withdrawn was approved or paid before and stays as it is."
    return {
        "outcome": "withdrawn",
        "order_id": order_id,
        "withdrawn": [_amount(refund) for refund in gone],
        "not_withdrawn": [_state(refund) for refund in others],
        "say": say,
    }


def too_late_output(order_id: str, refunds: Sequence[Refund]) -> Output:
    """Return the answer when every refund of the order is approved or paid; the newest is told of."""
    return {
        "outcome": "too_late",
        "order_id": order_id,
        "not_withdrawn": [_state(refund) for refund in refunds],
        "say": f"Nothing was withdrawn. {_TOO_LATE[refunds[-1].status]}",
    }


def nothing_waits_output(order_id: str) -> Output:
    """Return the answer when no refund of the order waits, is approved or was paid."""
    return {
        "outcome": "nothing_waits",
        "order_id": order_id,
        "say": f"No refund of order {order_id} waits for a decision, so there is nothing to withdraw."
        " Do not say or hint that money was or will be sent.",
    }


def _amount(refund: Refund) -> str:
    return str(refund.amount)


def _state(refund: Refund) -> Output:
    return {"amount": _amount(refund), "status": refund.status.value}
