"""Has today's code take up recorded runs, and says where it does not do again what they recorded.

The rows that a run was about are not there, and need not be: a step that is in the record is not done
again. One that is not must not be done, and the guard here ends the run that tries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from dbos import DBOS

from mailagent.workflows.steps import recording
from tests.harness import Harness, running, wait_until
from tests.histories.history import History
from tests.histories.tables import Tables

_UNEXPECTED = re.compile(r" step (\d+), function (\S+) was recorded when (\S+) was expected")
_PATIENCE_SECONDS = 60.0


class NotRecordedError(Exception):
    """A step is about to be done that the history does not have."""


@dataclass
class _Guard:
    """Notes which recorded steps each run passes, and ends one that would do anything anew."""

    runs: frozenset[str]
    passed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    anew: dict[str, str] = field(default_factory=dict)

    def __call__(self, step: str, point: str) -> None:
        run_id = DBOS.workflow_id
        if run_id not in self.runs:
            return
        if point == "before":
            self.anew.setdefault(run_id, step)
            raise NotRecordedError(f"{step} is not in the history")
        if point == "recorded":
            self.passed[run_id].append(step)


def replay(shop: Harness, histories: Sequence[History]) -> list[str]:
    """Let a worker take up runs as they were recorded; return what it did otherwise, one line a run."""
    tables = Tables(shop.live.database)
    # Sweeps are called by the minute, and two releases may have recorded the same one.
    histories = [replace(each, run_id=f"{each.run_id} at {each.release}") for each in histories]
    for history in histories:
        tables.put(history)
    guard = _Guard(frozenset(each.run_id for each in histories))
    unwatch = recording.watch(guard)
    try:
        with running(shop):
            for history in histories:
                _wait_for_end(tables, history)
    finally:
        unwatch()
    found = ((each, _difference(each, guard, tables)) for each in histories)
    return [f"{history}: {difference}" for history, difference in found if difference]


def _wait_for_end(tables: Tables, history: History) -> None:
    def has_ended() -> bool:
        return tables.outcome(history.run_id)[0] in ("SUCCESS", "ERROR")

    wait_until(has_ended, _PATIENCE_SECONDS, f"the end of the {history}")


def _difference(history: History, guard: _Guard, tables: Tables) -> str | None:
    """Return what today's code did otherwise than the history, or None."""
    status, output, error = tables.outcome(history.run_id)
    passed, anew = guard.passed[history.run_id], guard.anew.get(history.run_id)
    recorded = [
        step for step in history.steps if step.error is None and not step.name.startswith("DBOS.")
    ]
    unexpected = _UNEXPECTED.search(_message(error))
    if unexpected:
        number, was, wanted = unexpected.groups()
        return f"step {number}: recorded is {was}, today's code wants {wanted}"
    if len(passed) < len(recorded):
        skipped = recorded[len(passed)]
        return f"step {skipped.number}: recorded is {skipped.name}, today's code wants {anew or 'no more'}"
    unseen = _unseen(history, tables, anew)
    if unseen:
        return unseen
    if history.is_cut:
        return None if anew else f"it ended as {status} where it was still under way"
    if anew:
        return f"step {len(history.steps) + 1}: nothing is recorded, today's code wants {anew}"
    if (status, output, _message(error)) != (
        history.status,
        history.output,
        _message(history.error),
    ):
        return f"it ended as {status}, {output!r}, {error!r}, not as {history.status}, {history.output!r}"
    return None


def _unseen(history: History, tables: Tables, anew: str | None) -> str | None:
    """Return which operation DBOS has now that is not of the history, or None. The guard sees our own steps
    only, and a body may call DBOS by itself."""
    recorded = [step.name for step in history.steps]
    now = tables.step_names(history.run_id)
    if history.is_cut:  # a wait is over, and its end has a number below that of its beginning
        recorded, now = _without_waits(recorded), _without_waits(now)
    if anew:
        recorded.append(anew)
    for number, (was, name) in enumerate(zip_longest(recorded, now), start=1):
        if was != name:
            return (
                f"step {number}: recorded is {was or 'no more'}, DBOS has {name or 'no more'} now"
            )
    return None


def _without_waits(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("DBOS.")]


def _message(error: Any) -> str:
    return str(error["message"]) if error else ""
