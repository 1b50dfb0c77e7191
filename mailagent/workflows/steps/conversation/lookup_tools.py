"""What the agent may look up: its customer's orders. Only read, so `ask_model` does it itself, between two asks
of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mailagent import services
from mailagent.agent import tool_outputs
from mailagent.store.refunds import orders, refunds
from mailagent.workflows.steps.conversation.batch import Batch, customer_of

ORDERS_SHOWN = 10


def find_my_orders(batch: Batch, _arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Look up the orders of whoever wrote: of nobody else, and only if it is known who that is."""
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    with services.current().database.snapshot() as connection:
        address = customer_of(connection, batch)
        found, total = orders.list_of_customer(connection, address, ORDERS_SHOWN)
    return tool_outputs.orders_output(found, total)


def look_at_order(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Look up one order; somebody else's gives the same words as one that does not exist."""
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    with services.current().database.snapshot() as connection:
        found = orders.find_of_conversation(
            connection, arguments["order_id"], batch["conversation_id"]
        )
        if found is None:
            return tool_outputs.no_such_order_output()
        order, elsewhere = found
        earlier = refunds.list_of_order(connection, order.order_id)
    return tool_outputs.order_output(order, earlier, services.current().policy, elsewhere)


LOOKS: Mapping[str, Callable[[Batch, Mapping[str, Any]], dict[str, Any]]] = {
    "find_my_orders": find_my_orders,
    "look_at_order": look_at_order,
}
