"""Words for what the audit trail says, and for states beside it: the rows keep their short names, people read
plain ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mailagent.domain.mail.draft import DraftState
from mailagent.domain.wording import REFUND_STATES

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


def action_words(action: str) -> str:
    """Return what was done, in words."""
    return _ACTIONS.get(action, action.replace("_", " "))


def state_words(state: str) -> str:
    """Return the state of a refund, an order or a conversation in words."""
    return _STATES.get(state, state.replace("_", " "))


def detail_words(value: object) -> str:
    """Return a detail of an act as people read it: short names in words, all else as it is."""
    text = str(value)
    return state_words(text) if _SHORT_NAME.fullmatch(text) else text


def plain_details(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the audit trail adds to an act, a line each; notes stand with the decision, and ids say
    nothing to whoever reads a story."""
    return [
        (name.replace("_", " "), detail_words(value))
        for name, value in details.items()
        if name != "note"
        and isinstance(value, str | int | float)
        and value != ""
        and not _ID.fullmatch(str(value))
    ]
