"""Labels: the words that the console shows for codes in rows and records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from mailagent.domain.mail.draft import DraftState
from mailagent.domain.mail.message import Identity
from mailagent.domain.money import Money, parse_currency, parse_money
from mailagent.domain.refunds.labels import REFUND_REASONS, REFUND_STATES
from mailagent.domain.refunds.payment import INTENDED
from mailagent.engine.replay import Refusal
from mailagent.store import audit
from mailagent.web.language import show_moment, translate, write_money

# A label, and the colour of its badge: waiting, good, bad or none.
Badge = tuple[str, str]

DRAFT_STATES: Mapping[str, str] = {
    DraftState.WAITING: "waits for a click",
    DraftState.SENT: "sent as it was",
    DraftState.EDITED: "sent with changes",
    DraftState.DISCARDED: "discarded",
    DraftState.SUPERSEDED: "superseded",
}

IDENTITIES: Mapping[Identity, str] = {
    Identity.DKIM: "sender proven",
    Identity.SPF: "sender proven",
    Identity.MAILBOX: "sender proven: answered a mail that went to this mailbox only",
    Identity.NONE: "sender not proven",
}

PURPOSES: Mapping[str, str] = {
    "reply": "answer to a customer",
    "receipt": "receipt of a refund",
    "refund_outcome": "outcome of a refund",
    "remedy": "outcome of a request beside a refund",
    "approval_request": "request to approve a refund",
    "hand_over": "hand-over of a conversation to the team",
    "team_reply": "answer of the team",
    "notice": "notice to people of the shop",
    "login": "link to log in",
}

# What each workflow does, in lists of runs and in lines of the inbox.
WORKFLOWS: Mapping[str, str] = {
    "conversation": "answers mail",
    "refund": "completes a refund",
    "delivery": "delivers a mail",
    "sweep": "the sweep, once a minute",
    "housekeeping": "deletes old data, once an hour",
}
FAILED_WORKFLOWS: Mapping[str, str] = {
    "conversation": "Answering a mail",
    "refund": "Completing a refund",
    "delivery": "Sending a mail",
    "sweep": "The sweep once a minute: the last that failed that day",
}

RUN_STATES: Mapping[str, Badge] = {
    "ENQUEUED": ("waits for a worker", "waiting"),
    "PENDING": ("running, or waiting", "waiting"),
    "DELAYED": ("delayed", "waiting"),
    "SUCCESS": ("done", "good"),
    "ERROR": ("failed", "bad"),
    "CANCELLED": ("cancelled", ""),
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("given up after many crashes", "bad"),
}

LINE_STATES: Mapping[str, Badge] = {
    "awaiting_approval": ("waits for a manager", "waiting"),
    "approved": ("approved, not yet paid", "waiting"),
    "paid": ("paid", "good"),
    "rejected": ("rejected", ""),
    "expired": ("expired without a decision", ""),
    "withdrawn": ("withdrawn", ""),
    "failed": ("failed", "bad"),
    "unknown": ("outcome unknown", "bad"),
    "undelivered": ("did not arrive", "bad"),
    "waiting": ("waits to be sent", "waiting"),
    "answered": ("answered", "good"),
    "unanswered": ("waits for an answer", "waiting"),
    "no_answer": ("gets no answer", ""),
    "throttled": ("throttled", "waiting"),
    "open": ("with the agent", ""),
    "handed_over": ("with the team", "waiting"),
    "answered_by_person": ("answered by a person", "good"),
    "put_off": ("put off until a provider can be asked", "waiting"),
    "ERROR": RUN_STATES["ERROR"],
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": RUN_STATES["MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
}

# The badge of an unanswered mail by its run's status, if the run has stopped. With any other status the agent
# still works on the mail.
STOPPED_RUN_OF_MAIL: Mapping[str, Badge] = {
    "ERROR": ("its run failed", "bad"),
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("its run was given up", "bad"),
    "CANCELLED": ("its run was cancelled", "waiting"),
}

PAYMENT_STATES: Mapping[str, Badge] = {
    INTENDED: ("the gateway was asked", "waiting"),
    "done": ("refunded", "good"),
    "refused": ("refused by the gateway", "bad"),
}

REFUSALS: Mapping[Refusal, str] = {
    Refusal.UNKNOWN: "There is no such run, or its history has been deleted.",
    Refusal.AT_WORK: "This run is still active and goes on by itself. To replay it, stop it first.",
    Refusal.ENDED: "This run has ended already.",
    Refusal.MOVED_ON: "This run was replayed after you opened the page. It was not replayed again.",
    Refusal.NO_SUCH_STEP: "The run has no such step.",
    Refusal.NOT_OURS: "This run cannot be replayed.",
}

REASONS = {reason.value: label for reason, label in REFUND_REASONS.items()}
STATES = {status.value: label for status, label in REFUND_STATES.items()}

# The labels of actions in the audit log. Each is the action itself, except for this one.
ACTIONS: Mapping[str, str] = {action: action for action in audit.ACTIONS} | {
    "refund awaiting_approval": "refund left to a manager"
}
# The labels of the audit log's details: their names, with blanks instead of underscores.
DETAILS = (
    "amount", "dedup key", "dispute", "filters", "first approved by", "fork", "format",
    "from step", "kind", "mail id", "manager", "note for", "note id", "offered percent",
    "order id", "outbound id", "payment id", "percent", "policy version", "proposed by",
    "purpose", "question", "reason", "reference", "reminder", "second by", "sessions ended",
    "status", "tag", "to", "together", "undo until", "units", "until", "why",
)  # fmt: skip
SHOP_ONLY = "the shop only"  # whom a note is for
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?\+00:00")
_ID = re.compile(r"[a-z]{2,14}_[0-9a-z]{26}")
_SHORT_NAME = re.compile(r"[a-z]+(?:_[a-z]+)+")


def action_label(action: str) -> str:
    """Return the label of an action in the audit log; an action of an earlier release, unchanged."""
    return translate(ACTIONS.get(action, action))


def state_label(state: str) -> str:
    """Return the label of the state of a refund, an order or a conversation."""
    return translate(STATES.get(state, state.replace("_", " ")))


def detail_label(value: object, name: str = "") -> str:
    """Return the words for a detail of an audit entry: a label for a code, the page's form for an amount or a
    time, a translation of our own reasons (`why`); anything else, unchanged. `name`: the detail's name."""
    text = str(value)
    if text == SHOP_ONLY:
        return translate(text)
    if _INSTANT.fullmatch(text):
        return show_moment(datetime.fromisoformat(text))
    if amount := _parse_amount(text):
        return write_money(amount)
    if _SHORT_NAME.fullmatch(text):
        return state_label(text)
    return translate(text) if name == "why" else text


def _parse_amount(text: str) -> Money | None:
    """Return an amount as the log has it, such as `49.99 USD`; None for anything else."""
    number, _, currency = text.partition(" ")
    try:
        return parse_money(number, parse_currency(currency))
    except ValueError:
        return None


def detail_name(name: str) -> str:
    """Return the label of a detail's name; for an unknown one, the name with blanks."""
    words = name.replace("_", " ")
    return translate(words) if words in DETAILS else words


def detail_labels(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the details of an audit entry for a timeline, as pairs of a label and words: without ids, and
    without the note, which the decision's entry shows."""
    return [
        (detail_name(name), detail_label(value, name))
        for name, value in details.items()
        if name != "note"
        and isinstance(value, str | int | float)
        and value != ""
        and not _ID.fullmatch(str(value))
    ]


def money(minor: int, currency: str) -> str:
    return write_money(Money(minor, currency))


def run_path(run_id: str) -> str:
    return f"/ops/runs/{quote(run_id, safe='')}"
