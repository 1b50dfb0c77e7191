"""A tool is one module and one line: a toy one, registered from outside the package, is used like ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import Field

from mailagent.workflows.steps.conversation import model_call
from mailagent.workflows.steps.recording import CRASH_POINTS
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.tool import Arguments, Tool
from tests.cast import ADA
from tests.harness import Harness
from tests.tool_calls import calls, says

RINGS: list[str] = []


class CallCourier(Arguments):
    parcel: str = Field(description="The number of the parcel.")


def call_courier(_batch: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    RINGS.append(arguments["parcel"])
    return {"outcome": "called", "say": "The courier comes tomorrow."}


@pytest.fixture
def toy() -> Iterator[Tool]:
    RINGS.clear()
    tool = Tool("call_courier", CallCourier, "Call the courier of a parcel.", call_courier)
    registry.register(tool)
    yield tool
    del registry._tools[tool.name]
    model_call.tool_step.cache_clear()
    CRASH_POINTS.pop(tool.name, None)


def test_a_tool_registered_from_outside_is_offered_and_run_as_a_step(
    busy_shop: Harness, toy: Tool
) -> None:
    busy_shop.faults.openai += [
        calls("call_courier", parcel="P7"),
        says("Hello Ada, thank you for your mail."),
    ]
    busy_shop.write("Where is my parcel?")
    busy_shop.wait_for_mails(ADA)
    assert RINGS == ["P7"]


def test_two_tools_cannot_have_one_name(toy: Tool) -> None:
    with pytest.raises(ValueError, match="registered already"):
        registry.register(toy)
