"""The steps that run a tool which changes something. Tools that only read run inside `ask_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.model_call import tool_items
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.texts import store_texts, words_of
from mailagent.workflows.tools import registry

# These parts of an output have values from closed lists of ours, so they may stand in the step's record.
_RECORDED = ("outcome", "error", "reason")


def call_tool(batch: Batch, move: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run the tool that a move of the kind `call` names, as a step that has the tool's name.

    Returns what the model reads of it: the id of the stored text.
    """
    done = tool_step(move["tool"])(batch, move)
    return [{"text_id": done["text_id"]}]


@cache
def tool_step(name: str) -> Callable[[Batch, Mapping[str, Any]], dict[str, Any]]:
    """Return the step of a tool."""

    def use(batch: Batch, move: Mapping[str, Any]) -> dict[str, Any]:
        call = words_of(move)
        output = registry.run(name, batch, call["arguments"])
        stored = store_texts(batch, {"output": output, "items": tool_items(call, output)})
        return stored | {part: output[part] for part in _RECORDED if part in output}

    use.__name__ = use.__qualname__ = name
    return step(use)


for name in registry.changing():  # the crash tests read the list of all steps
    tool_step(name)
