"""What is left of an order, in money: for whoever asks how much they would get back.

A proposal is priced by `refund`; whether anything is paid is for the policy."""

from __future__ import annotations

from collections.abc import Sequence

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, WantedItem, price_lines, price_shipping


def worth_of_item(
    order: Order, item_id: str, units: int | None, earlier: Sequence[Refund]
) -> Money:
    """Return what `units` of an item (None: all that are left) would give, without carriage.

    Raises ItemsProblem for an item that is not on the order, and for more units than were bought.
    """
    lines = price_lines(order, [WantedItem(item_id, units)], earlier)
    return Money(sum(line.amount.minor for line in lines), order.currency)


def worth_of_all(order: Order, earlier: Sequence[Refund], with_shipping: bool) -> Money:
    """Return what all units that are left would give, and with them what is left of the carriage."""
    item_ids = dict.fromkeys(line.item_id for line in order.lines)
    lines = price_lines(order, [WantedItem(item_id) for item_id in item_ids], earlier)
    minor = sum(line.amount.minor for line in lines)
    if lines and with_shipping:
        minor += price_shipping(order, lines, earlier).minor
    return Money(minor, order.currency)


def left_of_payments(order: Order, earlier: Sequence[Refund], elsewhere_minor: int) -> Money:
    """Return what the payments have left: less refunds that hold money, less what was given back
    elsewhere (minor units), less what the customer's bank takes back."""
    held = sum(refund.held.minor for refund in earlier)
    left = order.paid.minor - held - elsewhere_minor - order.charged_back.minor
    return Money(max(0, left), order.currency)
