"""The tools as the model is told of them: names, descriptions and strict schemas.

What comes of a call stands in `tools`; here is nothing that decides.
"""

from __future__ import annotations

from typing import Any

from mailagent.domain.refunds.refund import RefundReason


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "strict": True,
        "parameters": _object(properties),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """Strict mode wants every property required and nothing else allowed, at every level."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# Lengths and ranges are left out of the schemas: not every server that speaks this API takes the
# keywords, and `parse_call` checks them in any case.
TOOLS: list[dict[str, Any]] = [
    _tool(
        "find_my_orders",
        "List the orders of the customer who wrote, newest first. Use it when the mail names no"
        " order number.",
        {},
    ),
    _tool(
        "look_at_order",
        "Show one order of this customer: its items with what can still be refunded and what that"
        " would come to (no promise: the shop decides), and its refunds so far. Look before you"
        " propose a refund or say anything about an order.",
        {"order_id": {"type": "string", "description": "As the customer or find_my_orders says."}},
    ),
    _tool(
        "propose_refund",
        "Ask for a refund of items of one order. The shop computes the amount and decides at once:"
        " approved, needs a manager, or declined. Call it once per order, with all items together.",
        {
            "order_id": {"type": "string"},
            "items": {
                "type": "array",
                "items": _object(
                    {
                        "item_id": {"type": "string", "description": "As look_at_order shows it."},
                        "quantity": {
                            "type": ["integer", "null"],
                            "description": "How many; null for all that can still be refunded.",
                        },
                    }
                ),
            },
            "reason": {"type": "string", "enum": [reason.value for reason in RefundReason]},
        },
    ),
    _tool(
        "withdraw_refund",
        "Withdraw the customer's requests for a refund of one order that still wait for a manager."
        " Use it only when the customer says that they do not want the refund any more.",
        {"order_id": {"type": "string"}},
    ),
    _tool(
        "hand_over",
        "Give the conversation to a person and end your work. Use it when the customer asks for a"
        " person, or needs what no tool can do.",
        {
            "reason": {"type": "string", "enum": ["customer_asked", "cannot_help"]},
            "summary": {
                "type": "string",
                "description": "For the colleague, in English: what is wanted, what was found.",
            },
        },
    ),
]

# Only there where the shop's policy gives discounts.
GOODWILL_TOOL: dict[str, Any] = _tool(
    "offer_goodwill",
    "Give the customer a discount on a later order, once per order, because something went wrong"
    " with this one. Use it only where an apology is due; never because a customer demands it.",
    {
        "order_id": {"type": "string", "description": "The order that something went wrong with."},
        "percent": {"type": "integer", "description": "How many percent off."},
    },
)


def offered_tools(goodwill: bool) -> list[dict[str, Any]]:
    """Return the tools that the model is told of; `goodwill`: whether the policy gives discounts."""
    return [*TOOLS, GOODWILL_TOOL] if goodwill else TOOLS


def names_of(goodwill: bool) -> list[str]:
    """Return the names of the tools that the model is told of."""
    return [tool["name"] for tool in offered_tools(goodwill)]
