"""Texts of a conversation that steps produce. DBOS's records hold the id of a row instead, because the DBOS
console shows them. A replay or fork finds the text by the id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.text import NeedsOperatorError
from mailagent.store.operations import step_texts
from mailagent.workflows.steps.conversation.batch import Batch


class StoredText(TypedDict):
    """What a step records in place of a text."""

    text_id: str


def store_text(connection: sa.Connection, batch: Batch, text: Mapping[str, Any]) -> StoredText:
    """Store a text, and return what the step records."""
    now = services.current().now()
    return StoredText(text_id=step_texts.record(connection, batch["conversation_id"], text, now))


def read_text(connection: sa.Connection, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text of a recorded move; nothing if it has none. Raises NeedsOperatorError if it was
    deleted."""
    return _read(connection, [record["text_id"]])[0] if "text_id" in record else {}


def read_items(connection: sa.Connection, stored: Sequence[StoredText]) -> list[dict[str, Any]]:
    """Return the items of the model's input that these texts hold, in order. Raises NeedsOperatorError if a
    text was deleted."""
    texts = _read(connection, [each["text_id"] for each in stored])
    return [item for text in texts for item in text["items"]]


def _read(connection: sa.Connection, text_ids: Sequence[str]) -> list[dict[str, Any]]:
    found = step_texts.find(connection, set(text_ids))
    for text_id in text_ids:
        if text_id not in found:
            raise NeedsOperatorError(
                f"the text {text_id} was deleted: replay this run from its first step"
            )
    return [found[text_id] for text_id in text_ids]
