"""The inbox: the lists of work for people, and the counts that its script polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock

import sqlalchemy as sa
from flask import Blueprint, Response, current_app, jsonify, request

from mailagent import services
from mailagent.domain.operations.access import Permission, Role
from mailagent.domain.operations.circuit_breaker import MEANS, away_name, tell_breaker
from mailagent.domain.operations.incident import OUTAGES, IncidentKind, tell_incident
from mailagent.domain.operations.provider import ProviderKind
from mailagent.store.console import dismissals, inbox
from mailagent.store.console.inbox import Asked, Entry, Figures, Lists, Waiting
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import Count, Window, microseconds, parse_moment
from mailagent.store.refunds import remedies, settlements
from mailagent.web.console.lines import Line, lines_of
from mailagent.web.console.page import (
    address,
    go_to,
    not_found,
    page,
    pages_beside,
    read_window,
    record_act,
    safe_path,
    typed,
)
from mailagent.web.guard import Person, current_person, needs
from mailagent.web.language import _, sentence

blueprint = Blueprint("ops_inbox", __name__)

SHOWN_AT_ONCE = 5  # of each list, on the first page

YOURS = "Waiting for you"
TO_PAY = "Refunds to pay"
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
    Waiting.DRAFTS: "Answers of the agent that wait until a person sends them.",
    Waiting.PEOPLE: "Customers who wait for a person's answer.",
    Waiting.FAILED: "Refunds that the payment gateway refused, and runs that failed.",
    Waiting.UNDELIVERED: "Mail from us that did not arrive, or may not have arrived.",
    Waiting.THROTTLED: (
        "More mail than the agent works on at once, or of senders who have not confirmed their addresses. "
        "It is released automatically later."
    ),
    Waiting.UNANSWERED: (
        "The agent works on these, unless their run failed or was cancelled: then an operator replays it, "
        "or the team gets the mail after its deadline."
    ),
}

# The lists that come first for each role; a person with several roles sees them in this order.
_FIRST = {
    Role.MANAGER: (Waiting.APPROVALS,),
    Role.TEAM: (Waiting.DRAFTS, Waiting.PEOPLE),
    Role.OPERATOR: (Waiting.FAILED, Waiting.UNDELIVERED, Waiting.THROTTLED),
}


@dataclass(frozen=True, slots=True)
class Section:
    """One list on the first page: its count and its oldest lines. `above`: how many of its lines are in the
    section above instead. `overdue`: how many are past their date."""

    name: str
    title: str
    meaning: str
    path: str
    count: Count
    lines: tuple[Line, ...]
    above: int = 0
    overdue: int = 0


@dataclass(frozen=True, slots=True)
class Beside:
    """A list of work that has a page of its own; the inbox shows only its length. `count` returns the length,
    and how many are past their date."""

    title: str
    path: str
    permission: Permission
    count: Callable[[sa.Connection, datetime], tuple[Count, int]]


# What happens after an outage to the mail and refunds that wait, for people who cannot end the outage.
_LATER = {
    **{incident: MEANS[kind] for kind, incident in OUTAGES.items()},
    IncidentKind.BUDGET_SPENT: MEANS[ProviderKind.MODEL],
}

BESIDE = {
    settlements.FIGURE: Beside(
        TO_PAY, "/ops/settlements", Permission.SETTLE, settlements.count_open
    ),
    remedies.FIGURE: Beside("Tasks", "/ops/tasks", Permission.TASKS, remedies.count_tasks),
}


def _order_for(person: Person) -> list[Waiting]:
    first = [each for role, lists in _FIRST.items() if role in person.roles for each in lists]
    return [*first, *(each for each in Waiting if each not in first)]


@blueprint.get("/ops")
@needs(Permission.VIEW)
def show() -> Response:
    """Show the lists with their oldest lines; with `waiting`, show one list."""
    waiting = request.args.get("waiting")
    with services.current().database.snapshot() as connection:
        live = services.current()
        lists = Lists(connection, live.workflow_client.tables.failed_runs(), live.now())
        if waiting in tuple(Waiting):
            return _show_list(connection, lists, Waiting(waiting))
        return _show_all(connection, lists)


def _show_all(connection: sa.Connection, lists: Lists) -> Response:
    person, live = current_person(), services.current()
    now, providers = live.now(), live.providers
    sections = [_section(connection, lists, Asked(waiting)) for waiting in _order_for(person)]
    if person.is_manager:
        yours = _section(connection, lists, Asked(Waiting.APPROVALS, manager=person.email))
        if yours.count.number:
            above = frozenset(line.entry.row_id for line in yours.lines)
            others = _section(connection, lists, Asked(Waiting.APPROVALS), above)
            sections[:1] = [yours, others]  # approvals come first for managers
    sections += [
        _count_only(name, connection, now) for name in BESIDE if person.may(BESIDE[name].permission)
    ]
    outages = [each for each in incidents.list_open(connection) if each.is_outage]
    told = {each.incident for each in outages}
    away = {
        away_name(provider): ""
        if OUTAGES[provider.kind] in told
        else tell_breaker(provider, breaker, now, sentence)
        for provider, breaker in circuit_breakers.list_open(connection, providers).items()
    }
    return page(
        "ops/inbox.html",
        sections=sections,
        outages={each: tell_incident(each.incident, providers, _) for each in outages},
        later={each.incident: _(_LATER[each.incident]) for each in outages},
        away=away,
        now=now,
        since=microseconds(now),
    )


def _section(
    connection: sa.Connection, lists: Lists, asked: Asked, above: frozenset[str] = frozenset()
) -> Section:
    """Return a section with its oldest lines, without the `above` ones, which another section shows."""
    count = lists.count(asked)
    window = Window(newest_first=False, size=SHOWN_AT_ONCE + len(above))
    found: Iterable[Entry] = lists.read(asked, window).rows if count.number else ()
    entries = [entry for entry in found if entry.row_id not in above][:SHOWN_AT_ONCE]
    return Section(
        name="yours" if asked.manager else asked.waiting.value,
        title=YOURS if asked.manager else TITLES[asked.waiting],
        meaning=MEANINGS[asked.waiting],
        path=address("/ops", {"waiting": asked.waiting.value, "manager": asked.manager}),
        count=count,
        lines=tuple(lines_of(connection, entries)),
        above=len(above),
    )


def _count_only(name: str, connection: sa.Connection, now: datetime) -> Section:
    beside = BESIDE[name]
    number, overdue = beside.count(connection, now)
    return Section(name, beside.title, "", beside.path, number, (), overdue=overdue)


def _show_list(connection: sa.Connection, lists: Lists, waiting: Waiting) -> Response:
    now = services.current().now()
    asked, facts = _read_filters(waiting, current_person())
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
        draft_replies=services.current().draft_replies,
        back=address("/ops", facts),
        now=now,
        since=microseconds(now),
        begun=window.cursor is not None,
        **pages_beside(part, "/ops", facts),
    )


def _read_filters(waiting: Waiting, person: Person) -> tuple[Asked, dict[str, str]]:
    """Return the filters of the request, and the same as parameters of a URL."""
    everything = request.args.get("shown") == "all"
    facts = {"waiting": waiting.value} | ({"shown": "all"} if everything else {})
    manager, owner = None, None
    if waiting is Waiting.APPROVALS and (manager := typed("manager").casefold() or None):
        facts["manager"] = manager
    if waiting is Waiting.PEOPLE and request.args.get("owner") in ("mine", "nobody"):
        facts["owner"] = request.args["owner"]
        owner = person.email if facts["owner"] == "mine" else ""
    return Asked(waiting, manager, owner, everything), facts


@blueprint.post("/ops/dismiss")
@needs(Permission.ANSWER)
def dismiss() -> Response:
    """Remove a lost mail, a failed refund or a failed run from the inbox; `act=back` brings it back."""
    live, email = services.current(), current_person().email
    subject = typed("subject", request.form)
    run = live.workflow_client.runs.find_run(subject)
    with live.database.transaction() as connection:
        if not (run is not None and run.has_failed) and not dismissals.may_be(connection, subject):
            return not_found("thing to dismiss")
        if request.form.get("act") == "back":
            if dismissals.forget(connection, subject):
                record_act(connection, "brought back", subject)
        else:
            failed_at = run.updated_at if run else None
            if dismissals.record(connection, subject, email, live.now(), failed_at):
                record_act(connection, "dismissed", subject)
    return go_to(safe_path(request.form.get("back")))


# --- live -----------------------------------------------------------------------------------------


CACHE = "ops_live"  # the app extension that holds the cached figures
CACHE_SECONDS = 5


class CachedFigures:
    """The counts of the last few seconds, shared by all open inboxes."""

    def __init__(self) -> None:
        self.seconds = float(CACHE_SECONDS)
        self._lock = Lock()
        self._figures: Figures | None = None

    def figures(self, since: datetime) -> Figures:
        """Return counts that are at most `seconds` old, and not older than `since`, the time of the page, which
        may show later lines. One thread counts, the others wait for it."""
        with self._lock:
            now, cached = services.current().now(), self._figures
            is_fresh = cached and timedelta(0) <= now - cached.at < timedelta(seconds=self.seconds)
            if cached is None or not is_fresh or cached.at < since <= now:
                live = services.current()
                with live.database.snapshot() as connection:
                    failed = live.workflow_client.tables.failed_runs()
                    cached = self._figures = inbox.read(connection, failed, live.providers, now)
            return cached


@blueprint.get("/ops/live")
@needs(Permission.VIEW)
def live() -> Response:
    """Return as JSON the length of each list, how many lines are newer than `since` (microseconds since 1970),
    and the providers that are down; 304 if nothing has changed (RFC 9110 section 13.1.2)."""
    cache: CachedFigures = current_app.extensions.setdefault(CACHE, CachedFigures())
    since = parse_moment(request.args.get("since")) or datetime.max.replace(tzinfo=UTC)
    figures = cache.figures(since)
    person = current_person()
    hidden = [name for name, each in BESIDE.items() if not person.may(each.permission)]
    counts = {name: words for name, words in figures.counts.items() if name not in hidden}
    response = jsonify(counts=counts, newer=figures.newer(since), outages=figures.outages)
    response.add_etag(weak=True)
    response.make_conditional(request)
    return response
