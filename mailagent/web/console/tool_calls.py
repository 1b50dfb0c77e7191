"""What the agent did, as the workflow engine recorded it: the tools it called, and what they answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mailagent import services
from mailagent.engine import RecordedStep, Run
from mailagent.store.console.timeline_entries import Entry, EntryKind
from mailagent.web.console.recorded import with_words

RUNS_READ_MAX = 20


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Tool calls as entries of a timeline. `missing`: runs whose history is not kept any more;
    `unread`: how many were not looked at, because a page has its limits."""

    entries: tuple[Entry, ...]
    missing: tuple[str, ...]
    unread: int


def read(run_ids: Sequence[str], since: datetime | None, until: datetime | None) -> ToolCalls:
    """Return the tool calls of some runs between two moments; None leaves that side open."""
    doorbell = services.current().doorbell
    read_ids = run_ids[:RUNS_READ_MAX]
    runs = {run_id: doorbell.find_run(run_id, with_steps=True) for run_id in read_ids}
    entries = (entry for run in runs.values() if run for entry in _of_run(run))
    return ToolCalls(
        tuple(entry for entry in entries if _is_between(entry.at, since, until)),
        tuple(run_id for run_id, run in runs.items() if run is None),
        len(run_ids) - len(read_ids),
    )


def _is_between(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def _of_run(run: Run) -> Iterator[Entry]:
    steps = with_words(run.steps)
    for step in sorted(steps, key=lambda step: step.number):
        for number, look in enumerate(_looks(step)):
            at, answer = datetime.fromisoformat(look["at"]), look.get("output")
            yield _entry(run, step, at, look, _word(answer), answer, number)
    for asked, answered in _pairs(steps):
        if asked.started_at is None:
            continue
        at = answered.started_at if answered and answered.started_at else asked.started_at
        answer = _answer(answered.output) if answered else None
        yield _entry(run, asked, at, asked.output, _outcome(answered), answer)


def _looks(step: RecordedStep) -> Sequence[Mapping[str, Any]]:
    """Return what was looked up between two asks of the model, in one step with them."""
    looked = step.output.get("looked") if isinstance(step.output, dict) else None
    return looked if isinstance(looked, list) else ()  # of a refund's claim it is a yes


def _entry(
    run: Run,
    asked: RecordedStep,
    at: datetime,
    call: Mapping[str, Any],
    outcome: str,
    answer: Any,
    number: int | None = None,
) -> Entry:
    place = f"{asked.number:06}" if number is None else f"{asked.number:06}.{number}"
    details = {
        "run_id": run.run_id,
        "tool": str(call["tool"]),
        "arguments": _json(call.get("arguments")),
        "outcome": outcome,
        "answer": _json(answer) if answer is not None else "",
    }
    key = f"{EntryKind.TOOL_CALL.value}:{run.run_id}:{place}"
    return Entry(at, key, EntryKind.TOOL_CALL, details)


def _pairs(
    steps: Iterable[RecordedStep],
) -> Iterator[tuple[RecordedStep, RecordedStep | None]]:
    """Return each step in which the model called a tool, with the step that did it, if it was done."""
    recorded = sorted(steps, key=lambda step: step.number)
    for number, step in enumerate(recorded):
        output = step.output
        if isinstance(output, dict) and output.get("kind") == "call" and "tool" in output:
            following = recorded[number + 1] if number + 1 < len(recorded) else None
            done = following is not None and following.name == output["tool"]
            yield step, following if done else None


def _outcome(answered: RecordedStep | None) -> str:
    """Return in a word or two what came of a call."""
    if answered is None:
        return "not done"
    if answered.error:
        return "failed"
    return _word(answered.output)


def _answer(output: Any) -> Any:
    """Return what a tool answered: of a step of its own, beside what came of it."""
    return output.get("output") if isinstance(output, dict) and "words_id" in output else output


def _word(answer: Any) -> str:
    output = answer if isinstance(answer, dict) else {}
    words = output.get("error") or output.get("outcome") or "done"
    return str(words).replace("_", " ")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
