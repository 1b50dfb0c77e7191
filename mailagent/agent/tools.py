"""The tools that the model may call: their strict schemas, and its arguments parsed as if hostile.

What a tool answers stands in `tool_outputs`; what it does is a step of the workflows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mailagent.agent.tool_outputs import bad_arguments_output, unknown_tool_output
from mailagent.domain.conversation import HandOverReason
from mailagent.domain.refund import RefundReason, WantedItem

ITEMS_MAX = 50
QUANTITY_MAX = 1_000_000
ID_MAX_LENGTH = 500
SUMMARY_MAX_LENGTH = 2_000
ARGUMENTS_MAX_LENGTH = 50_000


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
        "Show one order of this customer: its items with what can still be refunded, and its"
        " refunds so far. Look before you propose a refund or say anything about an order.",
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

_HAND_OVER_REASONS = {
    "customer_asked": HandOverReason.CUSTOMER_ASKED,
    "cannot_help": HandOverReason.MODEL_ASKED,
}


@dataclass(frozen=True, slots=True)
class FindMyOrders:
    pass


@dataclass(frozen=True, slots=True)
class LookAtOrder:
    order_id: str


@dataclass(frozen=True, slots=True)
class ProposeRefund:
    order_id: str
    items: tuple[WantedItem, ...]
    reason: RefundReason


@dataclass(frozen=True, slots=True)
class HandOver:
    reason: HandOverReason
    summary: str


@dataclass(frozen=True, slots=True)
class Misfit:
    """A call that cannot be carried out; `output` tells the model why. Nothing was done."""

    output: dict[str, Any]


class ArgumentsProblem(ValueError):
    """The arguments do not fit the schema; the text names the place and what belongs there."""


def parse_call(
    name: str, arguments: str
) -> FindMyOrders | LookAtOrder | ProposeRefund | HandOver | Misfit:
    """Return the tool call that the model made, checked against the schema in code.

    Servers other than OpenAI's may ignore `strict`, so nothing about `arguments` is taken for granted.
    """
    parse = _PARSERS.get(name)
    if parse is None:
        return Misfit(unknown_tool_output([tool["name"] for tool in TOOLS]))
    try:
        return parse(_decode(arguments))
    except ArgumentsProblem as problem:
        return Misfit(bad_arguments_output(str(problem)))


def _decode(arguments: str) -> object:
    if len(arguments) > ARGUMENTS_MAX_LENGTH:
        raise ArgumentsProblem(f"the arguments are over {ARGUMENTS_MAX_LENGTH} characters")
    try:
        # Some servers send an empty text where a tool has no arguments.
        return json.loads(
            arguments.strip() or "{}",
            object_pairs_hook=_without_twins,
            parse_constant=_refuse_constant,
        )
    except ArgumentsProblem:
        raise
    except (ValueError, RecursionError):
        raise ArgumentsProblem("the arguments are not valid JSON") from None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of two equal keys, parsers differ in which one they keep: what was logged may not be what ran.
    if len({key for key, _ in pairs}) != len(pairs):
        raise ArgumentsProblem("a key stands twice in one object")
    return dict(pairs)


def _refuse_constant(constant: str) -> NoReturn:
    raise ArgumentsProblem(f"{constant} is not JSON")


def _parse_find(arguments: object) -> FindMyOrders:
    _fields(arguments, "the arguments", set())
    return FindMyOrders()


def _parse_look(arguments: object) -> LookAtOrder:
    fields = _fields(arguments, "the arguments", {"order_id"})
    return LookAtOrder(_text(fields["order_id"], "order_id", ID_MAX_LENGTH))


def _parse_propose(arguments: object) -> ProposeRefund:
    fields = _fields(arguments, "the arguments", {"order_id", "items", "reason"})
    items = fields["items"]
    if not isinstance(items, list) or not 1 <= len(items) <= ITEMS_MAX:
        raise ArgumentsProblem(f"items: a list of 1 to {ITEMS_MAX} items is needed")
    return ProposeRefund(
        _text(fields["order_id"], "order_id", ID_MAX_LENGTH),
        tuple(_wanted(item, f"items[{number}]") for number, item in enumerate(items)),
        RefundReason(_choice(fields["reason"], "reason", [each.value for each in RefundReason])),
    )


def _wanted(item: object, where: str) -> WantedItem:
    fields = _fields(item, where, {"item_id", "quantity"})
    quantity = fields["quantity"]
    # `type` and not isinstance: true is an int to Python.
    if quantity is not None and (type(quantity) is not int or not 1 <= quantity <= QUANTITY_MAX):
        raise ArgumentsProblem(f"{where}.quantity: a whole number from 1, or null, is needed")
    return WantedItem(_text(fields["item_id"], f"{where}.item_id", ID_MAX_LENGTH), quantity)


def _parse_hand_over(arguments: object) -> HandOver:
    fields = _fields(arguments, "the arguments", {"reason", "summary"})
    reason = _choice(fields["reason"], "reason", list(_HAND_OVER_REASONS))
    summary = _text(fields["summary"], "summary", SUMMARY_MAX_LENGTH, lines=True)
    return HandOver(_HAND_OVER_REASONS[reason], summary)


def _fields(value: object, where: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentsProblem(f"{where}: an object is needed")
    wrong = sorted(keys ^ value.keys())
    if wrong:
        fault = "is missing" if wrong[0] in keys else "is not known"
        raise ArgumentsProblem(f"{where}: {wrong[0][:60]!r} {fault}")
    return value


def _text(value: object, where: str, longest: int, lines: bool = False) -> str:
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= longest:
        raise ArgumentsProblem(f"{where}: a text of 1 to {longest} characters is needed")
    # PostgreSQL takes no NUL, and no database takes half a surrogate pair.
    if any(_unstorable(character) for character in value if not (lines and character in "\n\t\r")):
        raise ArgumentsProblem(f"{where}: has a control character in it")
    return value.strip()


def _unstorable(character: str) -> bool:
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"


def _choice(value: object, where: str, choices: list[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ArgumentsProblem(f"{where}: must be one of {', '.join(choices)}")
    return value


_PARSERS: Mapping[
    str, Callable[[object], FindMyOrders | LookAtOrder | ProposeRefund | HandOver]
] = {
    "find_my_orders": _parse_find,
    "look_at_order": _parse_look,
    "propose_refund": _parse_propose,
    "hand_over": _parse_hand_over,
}
