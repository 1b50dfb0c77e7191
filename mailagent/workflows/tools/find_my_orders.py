"""The tool that lists the orders of the customer who wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mailagent import services
from mailagent.domain.refunds.order import Order
from mailagent.store.mail import conversations
from mailagent.store.refunds import orders
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.tools.tool import Arguments, Output, Tool, day, not_verified_output

ORDERS_SHOWN = 10


class FindMyOrders(Arguments):
    pass


def find_my_orders(batch: Batch, _arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Look up the orders of whoever wrote: of nobody else, and only if it is known who that is."""
    if not batch["verified"]:
        return not_verified_output()
    with services.current().database.snapshot() as connection:
        address = conversations.load(connection, batch["conversation_id"]).customer_email
        found, total = orders.list_of_customer(connection, address, ORDERS_SHOWN)
    return orders_output(found, total)


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
)
