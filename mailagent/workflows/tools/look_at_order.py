"""The tool that shows one order of the customer who wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import Shipment
from mailagent.domain.refunds.order import Order, OrderLine
from mailagent.domain.refunds.policy import Policy, return_by
from mailagent.domain.refunds.refund import (
    Refund,
    left_of_payments,
    taken_units,
    worth_of_all,
    worth_of_item,
)
from mailagent.mailers import Reader
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    OrderUse,
    Output,
    Tool,
    as_of_output,
    day,
    item_names,
    no_such_order_output,
)

_FACTS = ("order", "parcels", "items", "return_period", "refund")


class LookAtOrder(Arguments):
    order_id: Id = Field(description="As the customer or find_my_orders says.")


def look_at_order(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Return one order. Another customer's order gives the same output as one that does not exist."""
    found = reader.find_order_and_elsewhere(arguments["order_id"])
    if found is None:
        return no_such_order_output(arguments["order_id"])
    order, elsewhere = found
    policy = services.current().policy
    told = order_output(order, reader.refunds_of(order), policy, elsewhere)
    told |= as_of_output(reader.as_of(order))
    if reader.return_period(order) is None:
        told["facts"].remove(f"return_period/{order.order_id}")
    if requests := reader.remedies(order):
        told["facts"].append(f"remedy/{order.order_id}")
        told["requests"] = [
            {name: each[name] for name in ("kind", "status")}
            | {"items": [item.name for item in each["items"]]}
            for each in requests["remedies"]
        ]
    offer = reader.offer(order)
    if offer and offer["can_accept"]:
        told["facts"].append(f"offer/{order.order_id}")
        told["offer"] = f"{offer['amount']} back if they keep the items"
    if policy.store_credit:
        told["store_credit"] = "no choice: nothing is left to refund"
        if reader.store_credit(order):
            told["facts"].append(f"store_credit/{order.order_id}")
            told["store_credit"] = f"worth {policy.store_credit.bonus_percent} % more than money"
    return told


def order_output(
    order: Order, refunds: Sequence[Refund], policy: Policy, elsewhere_minor: int = 0
) -> Output:
    """Return what look_at_order answers. `refunds`: all refunds of the order, in any state. `elsewhere_minor`:
    what was refunded without us, in minor units."""
    held = sum(refund.held.minor for refund in refunds) + elsewhere_minor
    delivered_at = order.delivered_at
    return {
        "facts": [
            f"{kind}/{order.order_id}" for kind in _FACTS if kind != "parcels" or order.parcels
        ],
        "order_id": order.order_id,
        "status": order.status.value,
        "placed_at": day(order.placed_at),
        "delivered_at": day(delivered_at) if delivered_at else None,
        "return_by": day(return_by(delivered_at, policy)) if delivered_at else None,
        **({"parcels": list(map(_parcel, order.parcels))} if order.parcels else {}),
        "items": _items(order, refunds, policy),
        "paid": str(order.paid),
        "refunded_or_under_way": str(Money(held, order.currency)),
        **_order_amounts(order, refunds, policy, elsewhere_minor),
        "refunds": [
            {
                "items": item_names(refund, order),
                "amount": str(refund.amount),
                "status": refund.status.value,
                "requested_at": day(refund.requested_at),
            }
            for refund in refunds
        ],
    }


def _parcel(shipment: Shipment) -> Output:
    """Return how a parcel is doing; its number and link stand in the fact only."""
    times = {
        name: day(at)
        for name in ("shipped_at", "expected_at", "delivered_at", "last_event_at")
        if (at := getattr(shipment, name))
    }
    told = {"carrier": shipment.carrier, "items": dict(shipment.items)}
    return {"status": shipment.status.value, **{k: v for k, v in told.items() if v}, **times}


def _items(order: Order, refunds: Sequence[Refund], policy: Policy) -> list[Output]:
    """Return one entry per item. An item on two lines of the order is one entry, because it is asked for by its
    id."""
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
        amounts = _item_amounts(order, lines, refunds, left)
        shown.append({**item, **amounts, **_terms(order, lines, policy)})
    return shown


def _terms(order: Order, lines: Sequence[OrderLine], policy: Policy) -> Output:
    """Return the terms of the policy that are different for an item than for the rest of the order."""
    terms: Output = {}
    categories = [line.category for line in lines]
    if order.delivered_at and policy.window_days(categories) != policy.window_days():
        terms["return_by"] = day(return_by(order.delivered_at, policy, categories))
    if any(line.final_sale or policy.is_final(line.item_id, line.category) for line in lines):
        terms["final_sale"] = True
    return terms


def _order_amounts(
    order: Order, refunds: Sequence[Refund], policy: Policy, elsewhere_minor: int
) -> Output:
    """Return the amounts of the order as a whole, and what a refund of all that is left would give back, which
    is at most what its payments have left."""
    parts = {
        "discount": order.discount_minor,
        "shipping": order.shipping_minor,
        "tax": order.tax_minor,
    }
    told = {name: str(Money(minor, order.currency)) for name, minor in parts.items() if minor}
    in_all = min(
        worth_of_all(order, refunds, policy.refund_shipping),
        left_of_payments(order, refunds, elsewhere_minor),
    )
    return told | {"refundable_in_all": str(in_all)}


def _item_amounts(
    order: Order, lines: Sequence[OrderLine], refunds: Sequence[Refund], refundable: int
) -> Output:
    """Return what a refund of the remaining units of an item would give back, and of one unit if there are
    several."""
    item_id = lines[0].item_id
    told = {}
    discount = sum(line.discount_minor for line in lines)
    if discount:
        told["discount"] = str(Money(discount, order.currency))
    worth = worth_of_item(order, item_id, None, refunds)
    if refundable or worth.minor:  # a manager may have approved less for refunded units
        told["refundable_amount"] = str(worth)
    if refundable > 1:
        told["refundable_amount_of_one"] = str(worth_of_item(order, item_id, 1, refunds))
    return told


TOOL = Tool(
    "look_at_order",
    LookAtOrder,
    "Show one order of this customer: its items with what can still be refunded and what that"
    " would come to (no promise: the shop decides), its parcels, its refunds and its other requests"
    " so far. Look before you propose a refund or say anything about an order.",
    look_at_order,
    reads_only=True,
    order_use=OrderUse.LOOK,
)
