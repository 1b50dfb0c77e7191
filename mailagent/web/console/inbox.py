"""The inbox page: each list of what waits for people, and how its rows are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

import sqlalchemy as sa
from babel import Locale
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.adapters.templates.formats import format_money
from mailagent.domain.operations.access import Permission, Role
from mailagent.domain.operations.circuit_breaker import away_name, tell_breaker
from mailagent.domain.wording import REFUND_REASONS, REFUND_STATES
from mailagent.engine import Run
from mailagent.store.console import entries as entry_rows
from mailagent.store.console import run_subjects
from mailagent.store.console.entries import Entry
from mailagent.store.console.inbox import Asked, Lists, Waiting
from mailagent.store.console.run_subjects import Facts
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import Count, Window, microseconds
from mailagent.web.console.page import address, conceal_line, page, pages_beside, read_window, typed
from mailagent.web.guard import Person, current_person, needs

blueprint = Blueprint("ops_inbox", __name__)

SHOWN_AT_ONCE = 5  # of each list, on the first page

TITLES = {
    Waiting.APPROVALS: "Waiting for a manager",
    Waiting.DRAFTS: "Drafts to send",
    Waiting.PEOPLE: "With the team",
    Waiting.FAILED: "Failed",
    Waiting.UNDELIVERED: "Mail that did not arrive",
    Waiting.THROTTLED: "Throttled mail",
    Waiting.UNANSWERED: "Mail without an answer yet",
}
MEANINGS = {
    Waiting.APPROVALS: "Refunds that a manager decides on, by the link that was mailed to them.",
    Waiting.DRAFTS: "Answers of the agent that leave when somebody sends them.",
    Waiting.PEOPLE: "Customers who wait for a person's answer.",
    Waiting.FAILED: "Refunds that the payment gateway refused, and runs that gave up.",
    Waiting.UNDELIVERED: "Mail of ours that its reader did not get, or perhaps did not.",
    Waiting.THROTTLED: "More mail than is worked on at once. It is let in later by itself.",
    Waiting.UNANSWERED: (
        "The agent works on these, unless their run failed or was stopped: then an operator replays it, "
        "or the team gets the mail when its time is up."
    ),
}

# What comes first for whom; for whoever has several roles, in this order.
_FIRST = {
    Role.MANAGER: (Waiting.APPROVALS,),
    Role.TEAM: (Waiting.DRAFTS, Waiting.PEOPLE),
    Role.OPERATOR: (Waiting.FAILED, Waiting.UNDELIVERED, Waiting.THROTTLED),
}


@dataclass(frozen=True, slots=True)
class Section:
    """One list on the first page: how many, how old, and the oldest few."""

    name: str
    title: str
    meaning: str
    path: str
    count: Count
    lines: tuple[Line, ...]
    above: int = 0  # how many of the list are not among the lines, because they stand above

    @property
    def one(self) -> str:
        """The title behind the number one, where it is another."""
        return "Draft to send" if self.name == Waiting.DRAFTS.value else ""


def order_for(person: Person) -> list[Waiting]:
    """Return the lists in the order in which somebody should see them."""
    first = [each for role, lists in _FIRST.items() if role in person.roles for each in lists]
    return [*first, *(each for each in Waiting if each not in first)]


@blueprint.get("/ops")
@needs(Permission.VIEW)
def show() -> Response:
    """Show what waits for people, the oldest first; or one list of it, with `waiting`."""
    waiting = request.args.get("waiting")
    with services.current().database.snapshot() as connection:
        lists = Lists(connection, services.current().workflow_client.runs.failed_runs())
        if waiting in tuple(Waiting):
            return _show_list(connection, lists, Waiting(waiting))
        return _show_all(connection, lists)


def _show_all(connection: sa.Connection, lists: Lists) -> Response:
    person, now = current_person(), services.current().now()
    sections = [_section(connection, lists, Asked(each)) for each in order_for(person)]
    if person.is_manager:
        yours = _section(connection, lists, Asked(Waiting.APPROVALS, manager=person.email))
        if yours.count.number:
            path = f"{yours.path}&{address('', {'manager': person.email})[1:]}"
            yours = replace(yours, name="yours", title="Waiting for you", path=path)
            sections = [yours, *(_without(connection, lists, each, yours) for each in sections)]
    outages = [each for each in incidents.list_open(connection) if each.is_outage]
    away = {
        away_name(provider): tell_breaker(provider, breaker, now)
        for provider, breaker in circuit_breakers.list_open(connection).items()
    }
    return page(
        "ops/inbox.html",
        sections=sections,
        outages=outages,
        away=away,
        now=now,
        since=microseconds(now),
    )


def _section(connection: sa.Connection, lists: Lists, asked: Asked) -> Section:
    count = lists.count(asked)
    shown = Window(newest_first=False, size=SHOWN_AT_ONCE)
    entries = lists.read(asked, shown).rows if count.number else ()
    return Section(
        name=asked.waiting.value,
        title=TITLES[asked.waiting],
        meaning=MEANINGS[asked.waiting],
        path=address("/ops", {"waiting": asked.waiting.value}),
        count=count,
        lines=tuple(lines_of(connection, entries)),
    )


def _without(connection: sa.Connection, lists: Lists, section: Section, yours: Section) -> Section:
    """Return a list without what stands above it already: what waits for whoever reads."""
    if section.name != Waiting.APPROVALS.value:
        return section
    shown = {line.row_id for line in yours.lines}
    window = Window(newest_first=False, size=SHOWN_AT_ONCE + len(shown))
    rows = lists.read(Asked(Waiting.APPROVALS), window).rows
    others = [entry for entry in rows if entry.row_id not in shown][:SHOWN_AT_ONCE]
    return replace(section, lines=tuple(lines_of(connection, others)), above=len(shown))


def _show_list(connection: sa.Connection, lists: Lists, waiting: Waiting) -> Response:
    person, now = current_person(), services.current().now()
    asked, facts = _read_filters(waiting, person)
    window = read_window(newest_first=False)
    facts["order"] = "newest" if window.newest_first else ""
    part = lists.read(asked, window)
    return page(
        "ops/inbox_list.html",
        waiting=waiting.value,
        title=TITLES[waiting],
        meaning=MEANINGS[waiting],
        count=lists.count(asked),
        lines=lines_of(connection, part.rows),
        facts=facts,
        everything=asked.everything,
        managers=services.current().shop.manager_emails,
        back=address("/ops", facts),
        now=now,
        since=microseconds(now),
        begun=window.cursor is not None,
        **pages_beside(part, "/ops", facts),
    )


def _read_filters(waiting: Waiting, person: Person) -> tuple[Asked, dict[str, str]]:
    """Return what of a list is asked for, and the same as it stands in an address."""
    facts = {"waiting": waiting.value}
    asked = Asked(waiting, everything=request.args.get("shown") == "all")
    if asked.everything:
        facts["shown"] = "all"
    manager = typed("manager").casefold()
    if waiting is Waiting.APPROVALS and manager:
        asked, facts = replace(asked, manager=manager), {**facts, "manager": manager}
    owner = request.args.get("owner")
    if waiting is Waiting.PEOPLE and owner in ("mine", "nobody"):
        asked = replace(asked, owner=person.email if owner == "mine" else "")
        facts["owner"] = owner
    return asked, facts


# --- lines ----------------------------------------------------------------------------------------


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
    "sweep": "The sweep once a minute: the last that failed that day",
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
    "throttled": ("throttled", "waiting"),
    "open": ("with the agent", ""),
    "handed_over": ("with the team", "waiting"),
    "ERROR": ("failed", "bad"),
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("given up after many crashes", "bad"),
}

# Of the run of a mail that has no answer: with these nobody works on it. Other states are the agent's.
_RUN_OF_MAIL: Mapping[str, tuple[str, str]] = {
    "ERROR": ("its run failed", "bad"),
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("its run was given up", "bad"),
    "CANCELLED": ("its run was stopped", "waiting"),
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
    state_path: str | None  # where the state leads, such as to the run that failed
    expires_at: datetime | None
    may_dismiss: bool
    dismissed_by: str | None
    row_id: str


def lines_of(connection: sa.Connection, entries: Iterable[Entry]) -> list[Line]:
    """Return entries as lines, in their order."""
    entries = tuple(entries)
    refund_ids = [each.row_id for each in entries if each.state == "awaiting_approval"]
    asked = entry_rows.list_asked(connection, refund_ids)
    workflow_client = services.current().workflow_client
    runs = {
        **workflow_client.runs.find_latest([each.run_id for each in entries if each.run_id]),
        **workflow_client.runs.find_runs([each.row_id for each in entries if each.kind == "run"]),
    }
    subjects = {runs[each.row_id].subject for each in entries if each.row_id in runs}
    facts = run_subjects.list_facts(connection, subjects)
    lines = []
    for entry in entries:
        run = runs.get(_run_id(entry) or "")
        told = facts.get(run.subject) if run is not None and entry.kind == "run" else None
        lines.append(_line(_told(entry, told), asked, run))
    return lines


def _run_id(entry: Entry) -> str | None:
    return entry.row_id if entry.kind == "run" else entry.run_id


def _told(entry: Entry, facts: Facts | None) -> Entry:
    """Return the entry of a run with what is known of the row that it looked after."""
    what = _WORKFLOWS.get(entry.what, entry.what) if entry.kind == "run" else entry.what
    if facts is None:
        return replace(entry, what=what)
    about = {"refund": f"order {facts.what}", "delivery": PURPOSES.get(facts.what, facts.what)}
    return replace(
        entry,
        who=facts.who,
        what=f"{what}: {about.get(entry.what, facts.what) or '(no subject)'}",
        amount=facts.amount,
        conversation_id=facts.conversation_id,
        refund_id=facts.refund_id,
    )


def _state(entry: Entry, run: Run | None) -> tuple[str, str]:
    """Return the words for a state, and how they are coloured."""
    if entry.run_id is not None and not entry.state:
        return _RUN_OF_MAIL.get(run.status if run is not None else "", ("with the agent", ""))
    return _STATES.get(entry.state, (entry.state, "waiting" if entry.state else ""))


def _line(entry: Entry, asked: Mapping[str, Sequence[str]], run: Run | None) -> Line:
    words, kind = _state(entry, run)
    stuck = entry.run_id is not None and run is not None and run.status in _RUN_OF_MAIL
    loses = entry.kind in ("run", "outbound") or (entry.kind, entry.state) == ("refund", "failed")
    return Line(
        who=entry.who,
        what=_what(entry),
        amount=format_money(entry.amount, _ENGLISH) if entry.amount else "",
        state=words if entry.kind != "refund" else REFUND_STATES_BY_NAME.get(entry.state, words),
        kind=kind,
        at=entry.at,
        path=_path(entry),
        note=_note(entry, asked, run),
        state_path=_path_of_run(run.run_id) if run is not None and stuck else None,
        expires_at=entry.expires_at,
        may_dismiss=loses,
        dismissed_by=entry.dismissed_by,
        row_id=entry.row_id,
    )


REFUND_STATES_BY_NAME = {status.value: words for status, words in REFUND_STATES.items()}
_REASONS = {reason.value: words for reason, words in REFUND_REASONS.items()}


def _what(entry: Entry) -> str:
    if entry.kind == "refund":
        return f"Order {entry.order_id}: {_REASONS.get(entry.what, entry.what)}"
    if entry.kind == "outbound":
        return PURPOSES.get(entry.what, entry.what).capitalize()
    return conceal_line(entry.what) or "(no subject)"


def _note(entry: Entry, asked: Mapping[str, Sequence[str]], run: Run | None) -> str:
    if entry.state == "awaiting_approval":
        people = [each for each in asked.get(entry.row_id, ()) if each != entry.owner]
        told = f"asked: {', '.join(people)}" if people else ""
        first = f"approved by {entry.owner}, a second person is needed" if entry.owner else ""
        return "; ".join(filter(None, (first, told)))
    if entry.kind == "conversation" and entry.owner:
        return f"taken by {entry.owner}"
    # Errors speak of keys and servers: they are for those who can put them right.
    may_read = Permission.RUNS in current_person().permissions
    if entry.kind == "run" and run is not None and run.error and may_read:
        return " ".join(run.error.split())
    return ""


def _path(entry: Entry) -> str | None:
    person = current_person()
    if entry.kind == "run" and (path := _path_of_run(entry.row_id)):
        return path
    if entry.kind == "draft" and Permission.ANSWER in person.permissions:
        return f"/ops/drafts/{entry.row_id}"
    for kind, row_id in (("refund", entry.refund_id), ("conversation", entry.conversation_id)):
        if row_id:
            return f"/ops/{kind}s/{row_id}"
    return None


def _path_of_run(run_id: str | None) -> str | None:
    """Return the page of a run, for whoever may see it."""
    may = Permission.RUNS in current_person().permissions
    return f"/ops/runs/{quote(run_id, safe='')}" if run_id and may else None
