"""The tools that the model may call: its arguments parsed as if hostile. Their schemas: `tool_schemas`.

What a tool answers stands in `tool_outputs`; what it does is a step of the workflows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mailagent.agent import tool_schemas
from mailagent.agent.tool_outputs import bad_arguments_output, unknown_tool_output
from mailagent.agent.tool_schemas import names_of
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.refunds.refund import RefundReason, WantedItem

TOOLS = tool_schemas.TOOLS  # those that every shop has

ITEMS_MAX = 50
QUANTITY_MAX = 1_000_000
PERCENT_MAX = 100
ID_MAX_LENGTH = 500
SUMMARY_MAX_LENGTH = 2_000
ARGUMENTS_MAX_LENGTH = 50_000

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
class WithdrawRefund:
    order_id: str


@dataclass(frozen=True, slots=True)
class OfferGoodwill:
    order_id: str
    percent: int


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


Call = FindMyOrders | LookAtOrder | ProposeRefund | WithdrawRefund | OfferGoodwill | HandOver


def parse_call(name: str, arguments: str, goodwill: bool = True) -> Call | Misfit:
    """Return the tool call that the model made, checked against the schema in code.

    Servers other than OpenAI's may ignore `strict`, so nothing about `arguments` is taken for granted.
    Without `goodwill`, as the policy has it, there is no tool for discounts.
    """
    names = names_of(goodwill)
    if name not in names:
        return Misfit(unknown_tool_output(names))
    parse = _PARSERS[name]
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


def _parse_withdraw(arguments: object) -> WithdrawRefund:
    fields = _fields(arguments, "the arguments", {"order_id"})
    return WithdrawRefund(_text(fields["order_id"], "order_id", ID_MAX_LENGTH))


def _parse_goodwill(arguments: object) -> OfferGoodwill:
    fields = _fields(arguments, "the arguments", {"order_id", "percent"})
    percent = fields["percent"]
    if type(percent) is not int or not 1 <= percent <= PERCENT_MAX:
        raise ArgumentsProblem(f"percent: a whole number from 1 to {PERCENT_MAX} is needed")
    return OfferGoodwill(_text(fields["order_id"], "order_id", ID_MAX_LENGTH), percent)


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


_PARSERS: Mapping[str, Callable[[object], Call]] = {
    "find_my_orders": _parse_find,
    "look_at_order": _parse_look,
    "propose_refund": _parse_propose,
    "withdraw_refund": _parse_withdraw,
    "offer_goodwill": _parse_goodwill,
    "hand_over": _parse_hand_over,
}
