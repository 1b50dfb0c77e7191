"""Runs in plain words: their workflows and states, and why one was not replayed or stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from mailagent.engine import Refusal, Run
from mailagent.web.console.concealed import conceal

WORKFLOWS: Mapping[str, str] = {
    "conversation": "answers mail",
    "refund": "sees a refund through",
    "delivery": "sees a mail out",
    "sweep": "the sweep, once a minute",
    "housekeeping": "deletes what is old enough, once an hour",
}

# What a state means, and how it is coloured.
STATES: Mapping[str, tuple[str, str]] = {
    "ENQUEUED": ("waits for a worker", "waiting"),
    "PENDING": ("at work, or waiting", "waiting"),
    "DELAYED": ("waits for its time", "waiting"),
    "SUCCESS": ("done", "good"),
    "ERROR": ("failed", "bad"),
    "CANCELLED": ("stopped", ""),
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("died too often", "bad"),
}

REFUSALS: Mapping[Refusal, str] = {
    Refusal.UNKNOWN: "There is no such run, or its history is not kept any more.",
    Refusal.AT_WORK: "This run is at work already and goes on by itself. To replay it, stop it first.",
    Refusal.ENDED: "This run has ended already.",
    Refusal.MOVED_ON: "This run was replayed since you opened the page; it was not done a second time.",
    Refusal.NO_SUCH_STEP: "The run has no such step.",
    Refusal.NOT_OURS: "This run cannot be replayed.",
}

# Beyond this a browser on a phone gets slow; the command line has all of it.
_SHOWN, _LONGEST = 1500, 60_000


@dataclass(frozen=True, slots=True)
class Output:
    """What a step returned, as inert text: the beginning, the rest, and whether even that was cut."""

    beginning: str
    rest: str = ""
    cut: bool = False


def output_of(value: Any) -> Output | None:
    """Return a step's output for reading: without links that act for somebody; None for nothing."""
    if value is None:
        return None
    text = conceal(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    return Output(text[:_SHOWN], text[_SHOWN:_LONGEST], len(text) > _LONGEST)


def path_of_run(run_id: str) -> str:
    return f"/ops/runs/{quote(run_id, safe='')}"


def paths_of(run: Run) -> dict[str, str]:
    """Return what a run is about and where each leads, by the names of its attributes."""
    about = {**run.attributes}
    kind = run.subject.partition("_")[0]
    if kind in ("conversation", "refund"):
        about.setdefault(kind, run.subject)
    places = {"conversation": "/ops/conversations/", "refund": "/ops/refunds/"}
    paths = {name: f"{path}{quote(about[name])}" for name, path in places.items() if name in about}
    for name in ("order", "customer_hash"):
        if name in about:
            paths[name] = f"/ops/runs?about={quote(about[name])}"
    return paths
