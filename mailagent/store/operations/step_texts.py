"""Texts of recorded steps: what the model wrote, and the calls and answers of tools. DBOS records only the id
of the row, so that its console shows no texts. A replay reads them by the id.

A row never changes: a step that runs again writes another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.ids import new_id

_words = schema.step_texts


def record(
    connection: sa.Connection, conversation_id: str, words: Mapping[str, Any], now: datetime
) -> str:
    """Record texts as JSON; return the id of their row."""
    text_id = new_id("words")
    connection.execute(
        _words.insert(),
        {"text_id": text_id, "conversation_id": conversation_id, "at": now, "words": dict(words)},
    )
    return text_id


def find(connection: sa.Connection, text_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the texts that still exist, by their ids."""
    if not text_ids:
        return {}
    rows = connection.execute(
        sa.select(_words.c.text_id, _words.c.words).where(_words.c.text_id.in_(text_ids))
    )
    return {row.text_id: row.words for row in rows}


def delete_of_conversations(connection: sa.Connection, conversation_ids: Collection[str]) -> None:
    """Delete all texts of these conversations. Their runs can then be replayed only from the first step."""
    connection.execute(_words.delete().where(_words.c.conversation_id.in_(conversation_ids)))
