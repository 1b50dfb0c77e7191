"""Which tools there are. A new one is a module of this package, imported and registered here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent.domain.refunds.policy import Policy
from mailagent.mailers.fact import sentence
from mailagent.mailers.facts import Reader
from mailagent.workflows.tools import (
    accept_offer,
    cancel_order,
    find_my_orders,
    hand_over,
    look_at_order,
    offer_goodwill,
    propose_refund,
    request_change,
    withdraw_refund,
)
from mailagent.workflows.tools.tool import OrderUse, Output, Tool, schema_of

# The model reads them in this order. Keep it: the provider's prompt cache depends on it.
_tools: dict[str, Tool] = {}


def register(tool: Tool) -> None:
    """Let the agent use a tool. Raises ValueError if there is one of that name."""
    if tool.name in _tools:
        raise ValueError(f"a tool named {tool.name!r} is registered already")
    _tools[tool.name] = tool


def reads_only(name: str) -> bool:
    """Return whether a tool changes nothing. Raises KeyError if there is none of that name."""
    return _tools[name].reads_only


def order_use(name: str) -> OrderUse:
    """Return what a tool does with orders. Raises KeyError if there is none of that name."""
    return _tools[name].order_use


def changing() -> list[str]:
    """Return the names of the tools that change something; each is a step of the workflow."""
    return [tool.name for tool in _tools.values() if tool.run and not tool.reads_only]


def offered(policy: Policy) -> list[Tool]:
    """Return the tools that the model may call in a shop with this policy."""
    return [tool.for_policy(policy) for tool in _tools.values() if tool.is_offered(policy)]


def schemas(policy: Policy) -> list[dict[str, Any]]:
    """Return the tools of `offered` as the Responses API wants them."""
    return [schema_of(tool) for tool in offered(policy)]


def run(name: str, reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Run a tool, and return what the model reads. Raises KeyError if there is no tool of that name that can be
    run.

    For each fact that the output names, the model is shown the sentence that the customer will read, in
    English.
    """
    output = _tools[name].answer(reader, arguments)
    if "facts" not in output:
        return output
    facts = {fact_id: reader.find(fact_id) for fact_id in output["facts"]}
    sentences = {fact_id: sentence(fact) for fact_id, fact in facts.items() if fact}
    return output | {"facts": sentences}


for module in (
    find_my_orders,
    look_at_order,
    propose_refund,
    request_change,
    cancel_order,
    withdraw_refund,
    hand_over,
    offer_goodwill,
    accept_offer,
):
    register(module.TOOL)
