"""What steps record of words: none, but the id of a row that holds them. The DBOS console shows records, and
nobody's words belong there; a run that is replayed or forked finds them by the id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mailagent import services
from mailagent.domain.text import NeedsOperatorError
from mailagent.store.operations import step_texts
from mailagent.workflows.steps.conversation.batch import Batch

Record = Mapping[str, Any]


def store_texts(batch: Batch, words: Record) -> dict[str, Any]:
    """Record words in a row of their own; return what the step records in their place."""
    live = services.current()
    with live.database.transaction() as connection:
        return {
            "text_id": step_texts.record(connection, batch["conversation_id"], words, live.now())
        }


def words_of(record: Record) -> dict[str, Any]:
    """Return what a step recorded, with its words.

    Raises NeedsOperatorError when the words are not kept any more.
    """
    if "text_id" not in record:
        return dict(record)
    return {**record, **_find([record])[record["text_id"]]}


def items_of(told: Sequence[Record]) -> list[dict[str, Any]]:
    """Return what the model was told and said as its provider wants it, from records that name the words.
    Raises NeedsOperatorError as `words_of` does."""
    found = _find(told)
    items: list[dict[str, Any]] = []
    for each in told:
        items += found[each["text_id"]]["items"] if "text_id" in each else [dict(each)]
    return items


def _find(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    wanted = {str(each["text_id"]) for each in records if "text_id" in each}
    if not wanted:
        return {}
    with services.current().database.snapshot() as connection:
        found = step_texts.find(connection, wanted)
    gone = sorted(wanted - found.keys())
    if gone:
        raise NeedsOperatorError(
            f"the words of {gone[0]} are not kept any more: replay this run from its first step"
        )
    return found
