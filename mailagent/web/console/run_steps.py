"""Recorded steps of runs, with the texts that they refer to; and their tool calls as entries of a timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any

from mailagent import services
from mailagent.domain.operations.replay import RecordedStep
from mailagent.engine.run import Run
from mailagent.store.console.timeline import Entry, EntryKind
from mailagent.store.operations import step_texts

RUNS_READ_MAX = 20


def with_text(steps: Sequence[RecordedStep]) -> list[RecordedStep]:
    """Return steps with the stored texts in place of the ids in their outputs. Deleted texts are missing."""
    ids = {
        step.number: step.output["text_id"]
        for step in steps
        if isinstance(step.output, dict) and step.output.get("text_id")
    }
    with services.current().database.snapshot() as connection:
        texts = step_texts.find(connection, set(ids.values()))
    return [
        replace(step, output={**step.output, **texts[ids[step.number]]})
        if ids.get(step.number) in texts
        else step
        for step in steps
    ]


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Tool calls as entries of a timeline. `missing`: runs whose history was deleted. `unread`: how many runs
    were not read, because there were too many."""

    entries: tuple[Entry, ...]
    missing: tuple[str, ...]
    unread: int


def read_tool_calls(
    run_ids: Sequence[str], since: datetime | None, until: datetime | None
) -> ToolCalls:
    """Return the tool calls of some runs from `since` until before `until`; None means no bound."""
    client = services.current().workflow_client
    runs = {each: client.runs.find_run(each, with_steps=True) for each in run_ids[:RUNS_READ_MAX]}
    return ToolCalls(
        tuple(
            entry
            for run in runs.values()
            if run
            for entry in _tool_calls_of(run)
            if (since is None or entry.at >= since) and (until is None or entry.at < until)
        ),
        tuple(run_id for run_id, run in runs.items() if run is None),
        max(len(run_ids) - RUNS_READ_MAX, 0),
    )


def _tool_calls_of(run: Run) -> Iterator[Entry]:
    steps = sorted(with_text(run.steps), key=lambda step: step.number)
    for step, following in zip_longest(steps, steps[1:]):
        output = step.output if isinstance(step.output, dict) else {}
        # The step of a model call also runs the tools that only look something up.
        for number, call in enumerate(output.get("looked", ())):
            answer, at = call.get("output"), datetime.fromisoformat(call["at"])
            yield _entry(run, f"{step.number:06}.{number}", at, call, _outcome(answer), answer)
        if output.get("kind") == "call" and "tool" in output and step.started_at:
            answered = following if following and following.name == output["tool"] else None
            yield _of_step(run, step, step.started_at, answered)


def _of_step(run: Run, asked: RecordedStep, at: datetime, answered: RecordedStep | None) -> Entry:
    """Return the call of a tool that has a step of its own; `answered` is None if that step did not run."""
    place = f"{asked.number:06}"
    if answered is None:
        return _entry(run, place, at, asked.output, "not done", None)
    answer = answered.output
    if isinstance(answer, dict) and "text_id" in answer:
        answer = answer.get("output")
    outcome = "failed" if answered.error else _outcome(answered.output)
    return _entry(run, place, answered.started_at or at, asked.output, outcome, answer)


def _entry(
    run: Run, place: str, at: datetime, call: Mapping[str, Any], outcome: str, answer: Any
) -> Entry:
    facts = {
        "run_id": run.run_id,
        "tool": str(call["tool"]),
        "arguments": _json(call.get("arguments")),
        "outcome": outcome,
        "answer": _json(answer) if answer is not None else "",
    }
    kind = EntryKind.TOOL_CALL
    return Entry(at, f"{kind.value}:{run.run_id}:{place}", kind, facts)


def _outcome(answer: Any) -> str:
    output = answer if isinstance(answer, dict) else {}
    return str(output.get("error") or output.get("outcome") or "done").replace("_", " ")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
