"""Use a tool as the agent does, in a transaction of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent import services
from mailagent.mailers import Reader
from mailagent.store.mail import conversations
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.tools.tool import Run


def use(tool: Run, batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool answers; the facts in it are their ids."""
    with services.current().database.transaction() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        reader = Reader(connection, conversation, batch["mail_ids"], batch["verified"])
        return tool(reader, arguments)
