"""The tools that the model may call. Each is a pydantic model of its arguments and one line in `_TOOLS`: the
strict JSON schema that is sent and the parser of the arguments follow from the model.

What a tool answers stands in `tool_outputs`; what it does is a step of the workflows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from mailagent.agent.tool_outputs import bad_arguments_output, unknown_tool_output
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.refunds.refund import RefundReason

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


def _text(longest: int, lines: bool = False) -> AfterValidator:
    def check(value: str) -> str:
        if not 1 <= len(value.strip()) <= longest:
            needed = f"a text of 1 to {longest} characters is needed"
            raise PydanticCustomError("length", "{needed}", {"needed": needed})
        # PostgreSQL takes no NUL, and no database takes half a surrogate pair.
        if any(
            _is_unstorable(character)
            for character in value
            if not (lines and character in "\n\t\r")
        ):
            raise PydanticCustomError("control", "has a control character in it")
        return value.strip()

    return AfterValidator(check)


def _is_unstorable(character: str) -> bool:
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"


_Id = Annotated[str, _text(ID_MAX_LENGTH)]


class Arguments(BaseModel):
    """The arguments of a tool; every field is required. A field's description is told to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FindMyOrders(Arguments):
    pass


class LookAtOrder(Arguments):
    order_id: _Id = Field(description="As the customer or find_my_orders says.")


class Item(Arguments):
    item_id: _Id = Field(description="As look_at_order shows it.")
    quantity: Annotated[int, Field(ge=1, le=QUANTITY_MAX)] | None = Field(
        description="How many; null for all that can still be refunded."
    )


class ProposeRefund(Arguments):
    order_id: _Id
    items: list[Item] = Field(min_length=1, max_length=ITEMS_MAX)
    reason: Annotated[RefundReason, Strict(False)]  # from its text


class WithdrawRefund(Arguments):
    order_id: _Id


class OfferGoodwill(Arguments):
    order_id: _Id = Field(description="The order that something went wrong with.")
    percent: int = Field(ge=1, le=PERCENT_MAX, description="How many percent off.")


class HandOver(Arguments):
    reason: Literal["customer_asked", "cannot_help"]
    summary: Annotated[str, _text(SUMMARY_MAX_LENGTH, lines=True)] = Field(
        description="For the colleague, in English: what is wanted, what was found."
    )

    @property
    def hand_over_reason(self) -> HandOverReason:
        return _HAND_OVER_REASONS[self.reason]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model is told of it. `needs_goodwill`: only where the policy gives discounts."""

    name: str
    arguments: type[Arguments]
    description: str
    needs_goodwill: bool = False


_TOOLS = (
    Tool(
        "find_my_orders",
        FindMyOrders,
        "List the orders of the customer who wrote, newest first. Use it when the mail names no"
        " order number.",
    ),
    Tool(
        "look_at_order",
        LookAtOrder,
        "Show one order of this customer: its items with what can still be refunded and what that"
        " would come to (no promise: the shop decides), and its refunds so far. Look before you"
        " propose a refund or say anything about an order.",
    ),
    Tool(
        "propose_refund",
        ProposeRefund,
        "Ask for a refund of items of one order. The shop computes the amount and decides at once:"
        " approved, needs a manager, or declined. Call it once per order, with all items together.",
    ),
    Tool(
        "withdraw_refund",
        WithdrawRefund,
        "Withdraw the customer's requests for a refund of one order that still wait for a manager."
        " Use it only when the customer says that they do not want the refund any more.",
    ),
    Tool(
        "hand_over",
        HandOver,
        "Give the conversation to a person and end your work. Use it when the customer asks for a"
        " person, or needs what no tool can do.",
    ),
    Tool(
        "offer_goodwill",
        OfferGoodwill,
        "Give the customer a discount on a later order, once per order, because something went wrong"
        " with this one. Use it only where an apology is due; never because a customer demands it.",
        needs_goodwill=True,
    ),
)


def schema_of(tool: Tool) -> dict[str, Any]:
    """Return a tool as the Responses API wants it, in strict mode."""
    whole = tool.arguments.model_json_schema()
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "strict": True,
        "parameters": _strict(whole, whole.get("$defs", {})),
    }


def _strict(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of pydantic's for strict mode: every property required and no other allowed, at every
    level, and no references. Lengths and ranges are left out: not every server that speaks this API takes
    the keywords, and `parse_call` checks them in any case."""
    if "$ref" in schema:
        # Not with the docstring of an enum, which is not for the model.
        found = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**found, "description": None, **schema}
    if schema.get("type") == "object":
        properties = schema["properties"].items()
        return {
            "type": "object",
            "properties": {name: _strict(each, definitions) for name, each in properties},
            "required": [name for name, _ in properties],
            "additionalProperties": False,
        }
    either = [each["type"] for each in schema.get("anyOf", ())]
    strict = {"type": either or schema["type"]}
    strict |= {name: schema[name] for name in ("description", "enum") if schema.get(name)}
    return strict | ({"items": _strict(schema["items"], definitions)} if "items" in schema else {})


# By the name; the tool for discounts comes last.
_SCHEMAS = {tool.name: schema_of(tool) for tool in _TOOLS}
TOOLS = [_SCHEMAS[tool.name] for tool in _TOOLS if not tool.needs_goodwill]  # every shop has them


def offered_tools(goodwill: bool) -> list[dict[str, Any]]:
    """Return the tools that the model is told of; `goodwill`: whether the policy gives discounts."""
    return list(_SCHEMAS.values()) if goodwill else TOOLS


def names_of(goodwill: bool) -> list[str]:
    """Return the names of the tools that the model is told of."""
    return [tool["name"] for tool in offered_tools(goodwill)]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A call that cannot be carried out; `output` tells the model why. Nothing was done."""

    output: dict[str, Any]


class ArgumentsProblem(ValueError):
    """The arguments do not fit the schema; the text names the place and what belongs there."""


def parse_call(name: str, arguments: str, goodwill: bool = True) -> Arguments | Misfit:
    """Return the tool call that the model made, checked against the schema in code.

    Servers other than OpenAI's may ignore `strict`, so nothing about `arguments` is taken for granted.
    Without `goodwill`, as the policy has it, there is no tool for discounts.
    """
    names = names_of(goodwill)
    if name not in names:
        return Misfit(unknown_tool_output(names))
    (tool,) = (each for each in _TOOLS if each.name == name)
    try:
        return tool.arguments.model_validate(_decode(arguments))
    except ArgumentsProblem as problem:
        return Misfit(bad_arguments_output(str(problem)))
    except ValidationError as wrong:
        return Misfit(bad_arguments_output(_describe(wrong.errors()[0])))


def _decode(arguments: str) -> object:
    if len(arguments) > ARGUMENTS_MAX_LENGTH:
        raise ArgumentsProblem(f"the arguments are over {ARGUMENTS_MAX_LENGTH} characters")
    try:
        # Some servers send an empty text where a tool has no arguments.
        return json.loads(
            arguments.strip() or "{}",
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
        )
    except ArgumentsProblem:
        raise
    except (ValueError, RecursionError):
        raise ArgumentsProblem("the arguments are not valid JSON") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of two equal keys, parsers differ in which one they keep: what was logged may not be what ran.
    if len({key for key, _ in pairs}) != len(pairs):
        raise ArgumentsProblem("a key stands twice in one object")
    return dict(pairs)


def _refuse_constant(constant: str) -> NoReturn:
    raise ArgumentsProblem(f"{constant} is not JSON")


def _describe(error: ErrorDetails) -> str:
    """Return the place of an error and what is wrong there. Pydantic's messages hold none of the input."""
    place = list(error["loc"])
    match error["type"]:
        case "missing" | "extra_forbidden" as kind:
            fault = "is missing" if kind == "missing" else "is not known"
            problem = f"{str(place.pop())[:60]!r} {fault}"
        case "model_type":
            problem = "an object is needed"
        case _:
            problem = error["msg"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return f"{path.lstrip('.') or 'the arguments'}: {problem}"
