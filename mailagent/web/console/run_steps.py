"""Steps of runs as people here read them: what the workflow engine recorded, with the words that its records
only name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mailagent import services
from mailagent.engine import RecordedStep
from mailagent.store.operations import step_texts


def with_text(steps: Sequence[RecordedStep]) -> list[RecordedStep]:
    """Return steps with their words, as far as those are still kept."""
    named = {step.number: _text_id(step.output) for step in steps}
    with services.current().database.snapshot() as connection:
        found = step_texts.find(connection, {each for each in named.values() if each})
    return [
        replace(step, output={**step.output, **found[text_id]})
        if (text_id := named[step.number]) in found
        else step
        for step in steps
    ]


def _text_id(output: Any) -> str | None:
    return output.get("text_id") if isinstance(output, dict) else None
