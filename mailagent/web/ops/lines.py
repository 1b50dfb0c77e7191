"""Entries of lists as people read them: plain words, and where each leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import sqlalchemy as sa
from babel import Locale

from mailagent import services
from mailagent.adapters.formats import format_money
from mailagent.domain.access import Permission
from mailagent.domain.wording import REFUND_REASONS, REFUND_STATES
from mailagent.doorbell import Run
from mailagent.store import entries as entry_rows
from mailagent.store.entries import Entry
from mailagent.web.guard import current_person

_ENGLISH = Locale.parse("en")

PURPOSES: Mapping[str, str] = {
    "reply": "answer to a customer",
    "receipt": "receipt of a refund",
    "refund_outcome": "what became of a refund",
    "approval_request": "request to approve a refund",
    "hand_over": "word to the team about a conversation",
    "team_reply": "answer of the team",
    "notice": "notice to people of the shop",
    "login": "link to log in",
}

_WORKFLOWS: Mapping[str, str] = {
    "conversation": "Answering a mail",
    "refund": "Bringing a refund to its end",
    "delivery": "Sending a mail",
}

_STATES: Mapping[str, tuple[str, str]] = {
    "awaiting_approval": ("waits for a manager", "waiting"),
    "approved": ("approved, not yet paid", "waiting"),
    "paid": ("paid", "good"),
    "rejected": ("rejected", ""),
    "expired": ("expired without a decision", ""),
    "withdrawn": ("withdrawn by the customer", ""),
    "failed": ("failed", "bad"),
    "unknown": ("nobody can tell", "bad"),
    "undelivered": ("did not arrive", "bad"),
    "waiting": ("waits to be sent", "waiting"),
    "answered": ("answered", "good"),
    "unanswered": ("waits for an answer", "waiting"),
    "no_answer": ("gets no answer", ""),
    "parked": ("parked", "waiting"),
    "open": ("with the agent", ""),
    "handed_over": ("with the team", "waiting"),
    "ERROR": ("failed", "bad"),
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("given up after many crashes", "bad"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a list, ready to be shown. `kind` colours the badge; `note` is the second thing to
    know about it, such as who was asked."""

    who: str
    what: str
    amount: str
    state: str
    kind: str
    at: datetime
    path: str | None
    note: str
    expires_at: datetime | None
    may_put_away: bool
    put_away_by: str | None
    row_id: str


def lines_of(connection: sa.Connection, entries: Iterable[Entry]) -> list[Line]:
    """Return entries as lines, in their order."""
    entries = tuple(entries)
    refund_ids = [each.row_id for each in entries if each.state == "awaiting_approval"]
    asked = entry_rows.list_asked(connection, refund_ids)
    run_ids = [each.row_id for each in entries if each.kind == "run"]
    runs = services.current().doorbell.find_runs(run_ids) if run_ids else {}
    return [_line(each, asked, runs.get(each.row_id)) for each in entries]


def _line(entry: Entry, asked: Mapping[str, Sequence[str]], run: Run | None) -> Line:
    words, kind = _STATES.get(entry.state, (entry.state, "waiting" if entry.state else ""))
    loses = entry.kind in ("run", "outbound") or (entry.kind, entry.state) == ("refund", "failed")
    return Line(
        who=entry.who,
        what=_what(entry),
        amount=format_money(entry.amount, _ENGLISH) if entry.amount else "",
        state=words if entry.kind != "refund" else REFUND_STATES_BY_NAME.get(entry.state, words),
        kind=kind,
        at=entry.at,
        path=_path(entry, run),
        note=_note(entry, asked, run),
        expires_at=entry.expires_at,
        may_put_away=loses,
        put_away_by=entry.put_away_by,
        row_id=entry.row_id,
    )


REFUND_STATES_BY_NAME = {status.value: words for status, words in REFUND_STATES.items()}
_REASONS = {reason.value: words for reason, words in REFUND_REASONS.items()}


def _what(entry: Entry) -> str:
    if entry.kind == "refund":
        return f"Order {entry.order_id}: {_REASONS.get(entry.what, entry.what)}"
    if entry.kind == "outbound":
        return PURPOSES.get(entry.what, entry.what).capitalize()
    if entry.kind == "run":
        return _WORKFLOWS.get(entry.what, entry.what)
    return entry.what or "(no subject)"


def _note(entry: Entry, asked: Mapping[str, Sequence[str]], run: Run | None) -> str:
    if entry.state == "awaiting_approval":
        people = [each for each in asked.get(entry.row_id, ()) if each != entry.owner]
        told = f"asked: {', '.join(people)}" if people else ""
        first = f"approved by {entry.owner}, a second person is needed" if entry.owner else ""
        return "; ".join(filter(None, (first, told)))
    if entry.kind == "conversation" and entry.owner:
        return f"taken by {entry.owner}"
    if run is not None and run.error:
        return " ".join(run.error.split())
    return ""


def _path(entry: Entry, run: Run | None) -> str | None:
    person = current_person()
    if entry.kind == "run" and Permission.RUNS in person.permissions:
        return f"/ops/runs/{quote(entry.row_id, safe='')}"
    if entry.kind == "draft" and Permission.ANSWER in person.permissions:
        return f"/ops/drafts/{entry.row_id}"
    subject = run.subject if run is not None else ""
    for kind, row_id in (
        ("refund", entry.refund_id if entry.kind != "run" else subject),
        ("conversation", entry.conversation_id or subject),
    ):
        if row_id and row_id.startswith(f"{kind}_"):
            return f"/ops/{kind}s/{row_id}"
    return None
