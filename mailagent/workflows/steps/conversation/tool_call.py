"""The steps of the tools that change something."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from dbos import DBOS

from mailagent import services
from mailagent.domain.operations.retry import backoff_seconds
from mailagent.domain.orders.freshness import Freshness
from mailagent.store.mail import conversations
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.conversation.model_call import RecordedMove, tool_items
from mailagent.workflows.steps.conversation.orders import describe_hold_up, look_up_for
from mailagent.workflows.steps.conversation.texts import StoredText, read_text, store_text
from mailagent.workflows.steps.recording import step
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.tool import OrderUse, Output, unusable_order_output

# These parts of an output have values from closed lists of ours, so they may stand in the step's record.
_RECORDED = ("outcome", "error", "reason")
# How often a tool call waits for the order source. After that the mail is put off.
_WAITS_AT_WORK = 3


def call_tool(batch: Batch, move: RecordedMove) -> list[StoredText] | None:
    """Run the tool that a move of the kind `call` names, in a step of the tool's name. Return what the model is
    told of it; None if the order source is away, so that the mail has to wait."""
    tool, waits = tool_step(move["tool"]), 0
    done = tool(batch, move)
    while "after_seconds" in done:
        DBOS.sleep(done["after_seconds"])
        waits += 1
        done = tool(batch, move, waits)
    return [StoredText(text_id=done["text_id"])] if "text_id" in done else None


@cache
def tool_step(name: str) -> Callable[..., dict[str, Any]]:
    """Return the step of a tool. It looks up the order that the tool decides on; then one transaction records
    what the tool changes and what it answers."""
    order_use = registry.order_use(name)

    def use(batch: Batch, move: RecordedMove, waits: int = 0) -> dict[str, Any]:
        freshness = _look_up(order_use, batch, move)
        if freshness is Freshness.AWAY:
            return _wait(waits)
        with services.current().database.transaction() as connection:
            call = read_text(connection, move)
            if freshness in (Freshness.GONE, Freshness.UNUSABLE, Freshness.REFUSED):
                output: Output = unusable_order_output()
            else:
                output = registry.run(name, batch_reader(connection, batch), call["arguments"])
            text = {"output": output, "items": tool_items(name, call, output)}
            stored = store_text(connection, batch, text)
        return {**stored, **{part: output[part] for part in _RECORDED if part in output}}

    use.__name__ = use.__qualname__ = name
    return step(use)


def _look_up(order_use: OrderUse, batch: Batch, move: RecordedMove) -> Freshness:
    live = services.current()
    if live.order_source is None or order_use is OrderUse.NONE:
        return Freshness.FRESH
    with live.database.snapshot() as connection:
        arguments = read_text(connection, move)["arguments"]
        conversation = conversations.load(connection, batch["conversation_id"])
    return look_up_for(order_use, batch, conversation, arguments)


def _wait(waits: int) -> dict[str, Any]:
    describe_hold_up()
    if waits >= _WAITS_AT_WORK:
        return {"outcome": "order_source_away"}
    return {
        "outcome": "order_source_away",
        "after_seconds": backoff_seconds(waits + 1, first_seconds=2),
    }


for name in registry.changing():  # the crash tests read the list of all steps
    tool_step(name)
