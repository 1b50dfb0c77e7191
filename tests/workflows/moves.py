"""Moves of the model as the step that asked it records them, and the case that it was told."""

from __future__ import annotations

from mailagent import services
from mailagent.demo.scripted_model import Part, Say
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.context import Case, read_case
from mailagent.workflows.steps.conversation.model_call import RecordedMove
from mailagent.workflows.steps.conversation.texts import store_text


def reply_move(batch: Batch, *parts: Part, language: str = "en") -> RecordedMove:
    """Return the move of a model that replies with these parts."""
    with services.current().database.transaction() as connection:
        stored = store_text(connection, batch, {"text": Say(parts, language).text})
    return RecordedMove(kind="reply", items=[], spent={}, text_id=stored["text_id"])


def person_move(reason: str) -> RecordedMove:
    """Return the move of a model that asks for a person."""
    return RecordedMove(kind="person", items=[], spent={}, reason=reason)


def case_of(batch: Batch) -> Case:
    with services.current().database.snapshot() as connection:
        return read_case(connection, batch)
