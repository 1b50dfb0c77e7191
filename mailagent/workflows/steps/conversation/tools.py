"""The tools that are steps of their own: what the agent may propose, withdraw and give stands in `proposal`,
`withdrawal` and `goodwill`. What it looks up is part of the step that asks the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.goodwill import offer_goodwill
from mailagent.workflows.steps.conversation.model_call import tool_items
from mailagent.workflows.steps.conversation.refund_tools import propose_refund, withdraw_refund
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.texts import store_texts, words_of

Tool = Callable[[Batch, Mapping[str, Any]], dict[str, Any]]

TOOLS: Mapping[str, Tool] = {
    "propose_refund": propose_refund,
    "withdraw_refund": withdraw_refund,
    "offer_goodwill": offer_goodwill,
}


# What of a tool's output is from closed lists of ours.
_OURS = ("outcome", "error", "reason")


def _step(tool: Tool) -> Tool:
    @wraps(tool)
    def use(batch: Batch, move: Mapping[str, Any]) -> dict[str, Any]:
        call = words_of(move)
        output = tool(batch, call["arguments"])
        named = store_texts(batch, {"output": output, "items": tool_items(call, output)})
        came_of_it = {name: output[name] for name in _OURS if name in output}
        return named | came_of_it

    return step(use)


# Each takes a move of the kind `call`, and records what came of it and where its words are.
TOOL_STEPS: Mapping[str, Tool] = {name: _step(tool) for name, tool in TOOLS.items()}


def told_of_call(done: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model is to be told of a call, by the record of its step."""
    return [{"text_id": done["text_id"]}]
