"""What a tool is: a name, a pydantic model of its arguments, and a function.

The strict JSON schema that the model gets and the parser of the arguments follow from the pydantic model.
Below: what several tools answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import Refund
from mailagent.mailers import Reader

ID_MAX_LENGTH = 500
ARGUMENTS_MAX_LENGTH = 50_000

Output = dict[str, Any]


class OrderUse(Enum):
    """What a tool does with orders. If the shop has an order source, it is asked before the tool runs."""

    NONE = "no order is used"
    LIST = "the customer's orders are listed"
    LOOK = "the order of the argument `order_id` is told"
    DECIDE = "something is decided on that order"


# PostgreSQL takes no NUL. Other control characters have no place in an id.
_ONE_LINE, _LINES = r"^[^\x00-\x1f\x7f]*$", r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def text(longest: int, lines: bool = False) -> StringConstraints:
    """Return the constraints of a text of 1 to `longest` characters, in one line or several."""
    pattern = _LINES if lines else _ONE_LINE
    return StringConstraints(
        strip_whitespace=True, min_length=1, max_length=longest, pattern=pattern
    )


Id = Annotated[str, text(ID_MAX_LENGTH)]


class Arguments(BaseModel):
    """The arguments of a tool; every field is required. A field's description is told to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


NO_SUCH_ORDER = "no_such_order"
NUMBERS_MAX = 5

Run = Callable[[Reader, Mapping[str, Any]], Output]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call.

    `run` takes a reader of the customer whose mail is answered, with the transaction to work in, and the
    arguments as plain data. It returns what the model reads. It is None for a tool that ends the agent's work.
    `reads_only`: it changes nothing, so it needs no step of its own. `is_offered`: whether the model may call
    it under a shop's policy. `arguments_for`: the arguments that it takes under that policy.
    """

    name: str
    arguments: type[Arguments]
    description: str
    run: Run | None
    reads_only: bool = False
    order_use: OrderUse = OrderUse.NONE
    is_offered: Callable[[Policy], bool] = lambda _policy: True
    arguments_for: Callable[[Policy], type[Arguments]] | None = None

    def for_policy(self, policy: Policy) -> Tool:
        """Return the tool as the model may call it in a shop with this policy."""
        takes = self.arguments_for
        return replace(self, arguments=takes(policy)) if takes else self

    def answer(self, reader: Reader, arguments: Mapping[str, Any]) -> Output:
        """Run the tool, if the mail that is answered is proven to be the customer's. Raises KeyError for a tool
        that ends the agent's work."""
        if self.run is None:
            raise KeyError(f"{self.name} ends the agent's work and is not run")
        if not reader.proven:
            return not_verified_output()
        output = self.run(reader, arguments)
        if output.get("error") == NO_SUCH_ORDER:
            numbers = reader.numbers_with(str(arguments["order_id"]))
            return part_of_number_output(numbers) if numbers else output
        return output


@cache
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


@dataclass(frozen=True, slots=True)
class Misfit:
    """A call that cannot be carried out; `output` tells the model why. Nothing was done."""

    output: dict[str, Any]


def parse_call(tools: Sequence[Tool], name: str, arguments: str) -> Arguments | Misfit:
    """Check a call of the model against the schema, and return its arguments.

    Servers other than OpenAI's may ignore `strict`, so nothing about `arguments` is taken for granted.
    `tools` are those that the model may call.
    """
    tool = next((each for each in tools if each.name == name), None)
    if tool is None:
        return Misfit(unknown_tool_output([each.name for each in tools]))
    if len(arguments) > ARGUMENTS_MAX_LENGTH:
        return Misfit(
            bad_arguments_output(f"the arguments are over {ARGUMENTS_MAX_LENGTH} characters")
        )
    if _has_key_twice(arguments):
        return Misfit(bad_arguments_output("a key stands twice in one object"))
    try:
        # Some servers send an empty text where a tool has no arguments.
        return tool.arguments.model_validate_json(arguments.strip() or "{}")
    except ValidationError as wrong:
        return Misfit(bad_arguments_output(_describe(wrong.errors()[0])))


def _has_key_twice(arguments: str) -> bool:
    """Return whether an object has two equal keys: parsers differ in which one they keep."""
    objects: list[list[tuple[str, Any]]] = []
    with contextlib.suppress(ValueError, RecursionError):  # pydantic says what is wrong
        json.loads(arguments, object_pairs_hook=objects.append)
    return any(len(dict(pairs)) < len(pairs) for pairs in objects)


def _describe(error: ErrorDetails) -> str:
    """Return the place of an error and what is wrong there."""
    place = list(error["loc"])
    match error["type"]:
        case "missing" | "extra_forbidden" as kind:
            fault = "is missing" if kind == "missing" else "is not known"
            problem = f"{str(place.pop())[:60]!r} {fault}"
        case "model_type":
            problem = "an object is needed"
        case "json_invalid":
            problem = "not valid JSON"
        case "string_pattern_mismatch":
            problem = "has a control character in it"
        case _:
            problem = error["msg"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return f"{path.lstrip('.') or 'the arguments'}: {problem}"


def proposal_key(reader: Reader, *wanted: Any) -> str:
    """Return the idempotency key of a request: the same for the same `wanted` (plain data) and the
    same newest mail. The batch's older mails do not count: they may have led to requests before."""
    text = json.dumps([reader.conversation_id, reader.mail_ids[-1], *wanted])
    return hashlib.sha256(text.encode()).hexdigest()


def case_closed_output() -> Output:
    """Return the answer when the mail was answered, or given to people, before this call."""
    return {
        "error": "case_closed",
        "say": "This mail has been dealt with already. Write one short closing sentence.",
    }


def no_such_order_output(order_id: str) -> Output:
    """Return the answer for an order that does not exist or is another customer's: the same bytes."""
    return {
        "error": NO_SUCH_ORDER,
        "facts": [f"no_order/{order_id}"],
        "say": "This customer has no such order. Name the fact, and say nothing else about that order.",
    }


def part_of_number_output(numbers: Sequence[str]) -> Output:
    """Return the answer when the model gave only a part of an order's number: `numbers` are the orders of the
    customer that it may mean."""
    return {
        "error": "not_the_whole_number",
        "order_ids": list(numbers[:NUMBERS_MAX]),
        "say": "This is a part of the number of these orders of theirs. Call the tool again with the whole"
        " number if it is clear which one is meant; else ask for the whole number.",
    }


def unusable_order_output() -> Output:
    """Return the answer when the shop's system gives no usable record of an order now."""
    return {
        "error": "order_not_usable",
        "say": "The shop's system has no usable record of this order now, so nothing was decided. Say nothing"
        " about the order and call hand_over.",
    }


def not_verified_output() -> Output:
    """Return the answer of every tool while it is not proven who wrote."""
    return {
        "error": "sender_not_verified",
        "facts": ["not_verified"],
        "say": "We do not know yet that this mail is really from its sender. Name the fact, which asks the"
        " customer to answer, and say nothing about any order.",
    }


def bad_arguments_output(problem: str) -> Output:
    """Return the answer to arguments that do not fit the tool's schema."""
    return {
        "error": "bad_arguments",
        "say": f"Nothing was done: {problem}. Correct the arguments and call the tool again.",
    }


def unknown_tool_output(names: Sequence[str] = ()) -> Output:
    """Return the answer to a tool that does not exist; it does not repeat the model's word for it."""
    tools = f" The tools are {', '.join(names)}." if names else ""
    return {"error": "unknown_tool", "say": f"Nothing was done: there is no such tool.{tools}"}


def as_of_output(as_of: datetime | None) -> Output:
    """Return what to add to an output about orders: the time of the last look-up, or nothing if `as_of` is None
    because they are fresh."""
    return {"as_of": as_of.isoformat(timespec="minutes")} if as_of else {}


def item_names(refund: Refund, order: Order) -> list[str]:
    """Return the names of the items that a refund is for."""
    refunded = {part.line_no for part in refund.lines}
    return list(dict.fromkeys(line.name for line in order.lines if line.line_no in refunded))


def day(instant: datetime) -> str:
    return instant.date().isoformat()
