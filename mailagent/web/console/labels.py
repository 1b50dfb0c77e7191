"""Labels for audit entries, runs and states: rows keep short names, people read plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from mailagent.domain.mail.draft import DraftState
from mailagent.domain.wording import REFUND_STATES
from mailagent.engine import Refusal, Run
from mailagent.web.console.page import conceal

DRAFT_STATES: Mapping[str, str] = {
    DraftState.WAITING: "waits for a click",
    DraftState.SENT: "sent as it was",
    DraftState.EDITED: "sent with changes",
    DraftState.DISCARDED: "thrown away",
    DraftState.SUPERSEDED: "overtaken",
}

_ACTIONS: Mapping[str, str] = {
    "refund awaiting_approval": "refund left to a manager",
    "draft superseded": "draft overtaken",
}
_STATES: Mapping[str, str] = {status.value: words for status, words in REFUND_STATES.items()}

_ID = re.compile(r"[a-z]{2,14}_[0-9a-z]{26}")
_SHORT_NAME = re.compile(r"[a-z]+(?:_[a-z]+)+")


def action_labels(action: str) -> str:
    """Return what was done, in words."""
    return _ACTIONS.get(action, action.replace("_", " "))


def state_labels(state: str) -> str:
    """Return the state of a refund, an order or a conversation in words."""
    return _STATES.get(state, state.replace("_", " "))


def detail_labels(value: object) -> str:
    """Return a detail of an act as people read it: short names in words, all else as it is."""
    text = str(value)
    return state_labels(text) if _SHORT_NAME.fullmatch(text) else text


def plain_details(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the audit trail adds to an act, a line each; notes stand with the decision, and ids say
    nothing to whoever reads a story."""
    return [
        (name.replace("_", " "), detail_labels(value))
        for name, value in details.items()
        if name != "note"
        and isinstance(value, str | int | float)
        and value != ""
        and not _ID.fullmatch(str(value))
    ]


# --- run words ------------------------------------------------------------------------------------


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
