"""Failed runs, sorted by the reason why they failed, so that they can be replayed together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mailagent.engine.run import OUTLASTED, Run

# Ids, numbers and times differ between runs that failed for one reason.
_VARIES = re.compile(r"\b[a-z]+_[0-9a-z]{20,}|\d+")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why runs of one workflow failed at one step. `runs`: the oldest failure first."""

    key: str
    workflow: str
    step: str
    error: str
    runs: tuple[Run, ...]

    @property
    def first_at(self) -> datetime:
        return self.runs[0].updated_at

    @property
    def last_at(self) -> datetime:
        return self.runs[-1].updated_at


def reason_key(run: Run) -> str:
    """Return a short hash that is the same for all runs that failed for one reason. It stands in URLs of
    pages."""
    step = run.failed_step.name if run.failed_step else ""
    why = OUTLASTED if run.outlasted else _VARIES.sub("#", run.why)  # one outage has several causes
    alike = "\n".join((run.workflow, run.status, step, why))
    return hashlib.sha256(alike.encode()).hexdigest()[:12]


def sort_by_reason(runs: Iterable[Run]) -> list[Reason]:
    """Return the reasons why these runs failed, the one with most runs first."""
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda each: each.updated_at):
        found.setdefault(reason_key(run), []).append(run)
    reasons = [
        Reason(
            key,
            alike[0].workflow,
            alike[0].failed_step.name if alike[0].failed_step else "",
            alike[0].why,
            tuple(alike),
        )
        for key, alike in found.items()
    ]
    return sorted(reasons, key=lambda each: len(each.runs), reverse=True)
