"""The amounts of an order as the model is told them: what it came to, and what is left of it.

The same amounts may then stand in its reply: see `reply_facts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderLine
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import (
    Refund,
    left_of_payments,
    taken_units,
    worth_of_all,
    worth_of_item,
)

# A reply may say what so many units are worth, or all of them. Longer orders are told as a whole.
UNITS_TOLD = 10
LINES_TOLD = 100


def order_amounts(
    order: Order, refunds: Sequence[Refund], policy: Policy, elsewhere_minor: int
) -> dict[str, str]:
    """Return what belongs to the order as a whole, where there is any, and what all that is left of it
    would give back: never more than its payments have left."""
    parts = {
        "discount": order.discount_minor,
        "shipping": order.shipping_minor,
        "tax": order.tax_minor,
    }
    told = {name: str(Money(minor, order.currency)) for name, minor in parts.items() if minor}
    return told | {"refundable_in_all": str(_in_all(order, refunds, policy, elsewhere_minor))}


def item_amounts(
    order: Order, lines: Sequence[OrderLine], refunds: Sequence[Refund], refundable: int
) -> dict[str, str]:
    """Return what an item's units that are left would give back, and one of several."""
    item_id = lines[0].item_id
    told = {}
    discount = sum(line.discount_minor for line in lines)
    if discount:
        told["discount"] = str(Money(discount, order.currency))
    if refundable:
        told["refundable_amount"] = str(worth_of_item(order, item_id, None, refunds))
    if refundable > 1:
        told["refundable_amount_of_one"] = str(worth_of_item(order, item_id, 1, refunds))
    return told


def list_amounts(
    order: Order, refunds: Sequence[Refund], policy: Policy, elsewhere_minor: int
) -> Iterator[Money]:
    """Yield every amount that may be told of an order beside prices and refunds."""
    for minor in (order.discount_minor, order.shipping_minor, order.tax_minor):
        if minor:
            yield Money(minor, order.currency)
    yield Money(elsewhere_minor, order.currency)
    yield left_of_payments(order, refunds, elsewhere_minor)
    yield _in_all(order, refunds, policy, elsewhere_minor)
    if len(order.lines) <= LINES_TOLD:
        yield from _of_items(order, refunds)


def _in_all(order: Order, refunds: Sequence[Refund], policy: Policy, elsewhere_minor: int) -> Money:
    return min(
        worth_of_all(order, refunds, policy.refund_shipping),
        left_of_payments(order, refunds, elsewhere_minor),
    )


def _of_items(order: Order, refunds: Sequence[Refund]) -> Iterator[Money]:
    taken = taken_units(refunds)
    left: dict[str, int] = {}
    for line in order.lines:
        units = max(0, line.quantity - taken.get(line.line_no, 0))
        left[line.item_id] = left.get(line.item_id, 0) + units
        if line.discount_minor:
            yield Money(line.discount_minor, order.currency)
            yield Money(line.net_minor, order.currency)
    for item_id, units in left.items():
        for count in range(1, min(units, UNITS_TOLD) + 1):
            yield worth_of_item(order, item_id, count, refunds)
        if units:
            yield worth_of_item(order, item_id, None, refunds)
