"""The tool that lists the orders of the customer who wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mailagent.domain.refunds.order import Order
from mailagent.mailers import Reader
from mailagent.mailers.facts import ORDERS_LISTED
from mailagent.store.refunds import orders
from mailagent.workflows.tools.tool import Arguments, OrderUse, Output, Tool, as_of_output, day


class FindMyOrders(Arguments):
    pass


def find_my_orders(reader: Reader, _arguments: Mapping[str, Any]) -> Output:
    """Return the newest orders of the customer who wrote. `Tool.answer` has checked that the sender is
    proven."""
    address = reader.conversation.customer_email
    found, total = orders.list_of_customer(
        reader.connection, address, ORDERS_LISTED, with_gone=False
    )
    return orders_output(found, total) | as_of_output(reader.list_as_of(found))


def orders_output(orders: Sequence[Order], total: int) -> Output:
    """Return what find_my_orders answers: the newest orders, and how many more there are."""
    return {
        "facts": ["my_orders", *(f"order/{order.order_id}" for order in orders)],
        "orders": [
            {
                "order_id": order.order_id,
                "placed_at": day(order.placed_at),
                "status": order.status.value,
                "paid": str(order.paid),
                "items": [line.name for line in order.lines],
            }
            for order in orders
        ],
        "more": max(0, total - len(orders)),
    }


TOOL = Tool(
    "find_my_orders",
    FindMyOrders,
    "List the orders of the customer who wrote, newest first. Use it when the mail names no"
    " order number.",
    find_my_orders,
    reads_only=True,
    order_use=OrderUse.LIST,
)
