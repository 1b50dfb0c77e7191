"""What the model looks up is part of asking it: no step of its own, and no ask more when it is tried again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
import sqlalchemy as sa
from pydantic import Field

from mailagent.domain.operations.replay import RecordedStep
from mailagent.mailers import Reader
from mailagent.store.mail import conversations
from mailagent.web.console.run_steps import with_text
from mailagent.workflows.steps.conversation import tool_call
from mailagent.workflows.steps.conversation.batch import batch_reader
from mailagent.workflows.steps.recording import CRASH_POINTS, AtWork
from mailagent.workflows.tools import look_at_order, registry
from mailagent.workflows.tools.tool import Arguments, Tool
from tests.cast import ADA, order
from tests.harness import Harness, wait_until
from tests.tool_calls import WHICH_ORDER, calls, says
from tests.workflows.proposals import write
from tests.workflows.trouble import once

QUESTION = "Where is my order W1001?"


def steps_of(shop: Harness) -> list[RecordedStep]:
    """Return the steps of the one conversation's run, when it has ended."""
    wait_until(shop.at_rest, 30, "all to be done")
    (listed,) = (
        run for run in shop.live.workflow_client.runs.list_runs() if run.workflow == "conversation"
    )
    run = shop.live.workflow_client.runs.find_run(listed.run_id, with_steps=True)
    assert run is not None
    return sorted(with_text(run.steps), key=lambda step: step.number)


def requests(shop: Harness) -> int:
    return len(shop.rows("SELECT 1 FROM model_calls"))


def test_a_question_takes_one_step_for_both_asks_and_the_look_between(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.write(QUESTION)
    busy_shop.wait_for_mails(ADA)
    steps = steps_of(busy_shop)
    assert [step.name for step in steps] == ["take_batch", "ask_model", "write_reply", "send_mail"]
    recorded = cast("Mapping[str, Any]", steps[1].output)
    (look,) = recorded["looked"]
    assert (look["tool"], look["arguments"]) == ("look_at_order", {"order_id": "W1001"})
    assert look["output"]["order_id"] == "W1001"
    assert requests(busy_shop) == 2


def test_a_look_reads_each_row_of_an_order_once(shop: Harness) -> None:
    shop.stock(order())
    batch, asked = write(shop, text=QUESTION), list[str]()
    engine = shop.live.database.engine
    with shop.live.database.transaction() as connection:
        sa.event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
        reader = batch_reader(connection, batch)
        registry.run("look_at_order", reader, {"order_id": "w1001"})
        reader.orders_of_mails()
    for table in ("order_lines", "order_payments", "refunds", "offers"):
        reads = [each for each in asked if re.match(rf"SELECT (DISTINCT )?{table}\.", each)]
        assert len(reads) == 1, reads
    assert not any("held_minor +" in each for each in asked)


def test_a_step_asks_twice_at_most_and_the_next_one_is_told_all(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += [
        calls("find_my_orders"), calls("look_at_order", order_id="W1001"),
        calls("look_at_order", order_id="W9999"), says(WHICH_ORDER),
    ]  # fmt: skip
    busy_shop.write(QUESTION)
    busy_shop.wait_for_mails(ADA)
    asked = [
        cast("Mapping[str, Any]", step.output)
        for step in steps_of(busy_shop)
        if step.name == "ask_model"
    ]
    assert [move["kind"] for move in asked] == ["again", "reply"]
    tools = [[look["tool"] for look in move["looked"]] for move in asked]
    assert tools == [["find_my_orders", "look_at_order"], ["look_at_order"]]
    assert asked[1]["spent"]["model_turns"] == requests(busy_shop) == 4
    answered = [item["call_id"] for item in asked[0]["items"] if "output" in item]
    assert len(answered) == 2


def test_a_database_in_trouble_while_looking_costs_no_ask_more(
    busy_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = sa.exc.OperationalError("SELECT", None, Exception("cut"))
    lost.connection_invalidated = True

    def fail() -> None:
        raise lost

    fail_once = once(fail)

    def look(reader: Reader, arguments: Mapping[str, Any]) -> dict[str, Any]:
        fail_once()
        return look_at_order.look_at_order(reader, arguments)

    monkeypatch.setitem(registry._tools, "look_at_order", replace(look_at_order.TOOL, run=look))
    busy_shop.stock(order())
    busy_shop.write(QUESTION)
    busy_shop.wait_for_mails(ADA)
    wait_until(busy_shop.at_rest, 30, "all to be done")
    assert requests(busy_shop) == 2


def test_a_process_that_is_leaving_begins_no_second_ask(
    busy_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtWork, "is_leaving", property(lambda _self: True))
    busy_shop.stock(order())
    busy_shop.write(QUESTION)
    busy_shop.wait_for_mails(ADA)
    assert [step.name for step in steps_of(busy_shop)].count("ask_model") == 2
    assert requests(busy_shop) == 2


# --- registered tool ------------------------------------------------------------------------------


PARCELS: list[str] = []


class CallCourier(Arguments):
    parcel: str = Field(description="The number of the parcel.")


def call_courier(_reader: Reader, arguments: Mapping[str, Any]) -> dict[str, Any]:
    PARCELS.append(arguments["parcel"])
    return {"outcome": "called", "say": "The courier comes tomorrow."}


@pytest.fixture
def toy() -> Iterator[Tool]:
    PARCELS.clear()
    tool = Tool("call_courier", CallCourier, "Call the courier of a parcel.", call_courier)
    registry.register(tool)
    yield tool
    del registry._tools[tool.name]
    tool_call.tool_step.cache_clear()
    CRASH_POINTS.pop(tool.name, None)


def test_a_tool_registered_from_outside_is_offered_and_run_as_a_step(
    busy_shop: Harness, toy: Tool
) -> None:
    busy_shop.faults.openai += [
        calls("call_courier", parcel="P7"),
        says(WHICH_ORDER),
    ]
    busy_shop.write("Where is my parcel?")
    busy_shop.wait_for_mails(ADA)
    assert PARCELS == ["P7"]


def test_no_tool_runs_for_a_sender_who_is_not_proven(busy_shop: Harness, toy: Tool) -> None:
    busy_shop.write("Where is my parcel?")
    busy_shop.wait_for_mails(ADA)
    with busy_shop.live.database.snapshot() as connection:
        thread = conversations.list_recent(connection, 1)[0].conversation_id
        reader = Reader(connection, conversations.load(connection, thread), [], proven=False)
        told = registry.run(toy.name, reader, {"parcel": "P7"})
    assert (told["error"], PARCELS) == ("sender_not_verified", [])


def test_two_tools_cannot_have_one_name(toy: Tool) -> None:
    with pytest.raises(ValueError, match="registered already"):
        registry.register(toy)
