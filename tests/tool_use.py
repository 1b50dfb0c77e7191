"""Use a tool as the agent does, in a transaction of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent import services
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.tool import Run


def use(tool: Run, batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool answers; the facts in it are their ids."""
    with services.current().database.transaction() as connection:
        used = registry._tools[tool.__name__]
        return used.answer(batch_reader(connection, batch), arguments)
