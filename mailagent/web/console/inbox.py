"""What waits for people: the first page of the console, and each of its lists whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.operations.access import Permission, Role
from mailagent.domain.operations.circuit_breaker import away_name, tell_breaker
from mailagent.store.console.inbox import Asked, Lists, Waiting
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import Count, Window, microseconds
from mailagent.web.console.lines import Line, lines_of
from mailagent.web.console.pages import page
from mailagent.web.console.paging import address, pages_beside, read_window, typed
from mailagent.web.guard import Person, current_person, needs

blueprint = Blueprint("ops_inbox", __name__)

SHOWN_AT_ONCE = 5  # of each list, on the first page

TITLES = {
    Waiting.APPROVALS: "Waiting for a manager",
    Waiting.DRAFTS: "Drafts to send",
    Waiting.PEOPLE: "With the team",
    Waiting.FAILED: "Failed",
    Waiting.UNDELIVERED: "Mail that did not arrive",
    Waiting.PARKED: "Parked mail",
    Waiting.UNANSWERED: "Mail without an answer yet",
}
MEANINGS = {
    Waiting.APPROVALS: "Refunds that a manager decides on, by the link that was mailed to them.",
    Waiting.DRAFTS: "Answers of the agent that leave when somebody sends them.",
    Waiting.PEOPLE: "Customers who wait for a person's answer.",
    Waiting.FAILED: "Refunds that the payment gateway refused, and runs that gave up.",
    Waiting.UNDELIVERED: "Mail of ours that its reader did not get, or perhaps did not.",
    Waiting.PARKED: "More mail than is worked on at once. It is let in later by itself.",
    Waiting.UNANSWERED: (
        "The agent works on these, unless their run failed or was stopped: then an operator replays it, "
        "or the team gets the mail when its time is up."
    ),
}

# What comes first for whom; for whoever has several roles, in this order.
_FIRST = {
    Role.MANAGER: (Waiting.APPROVALS,),
    Role.TEAM: (Waiting.DRAFTS, Waiting.PEOPLE),
    Role.OPERATOR: (Waiting.FAILED, Waiting.UNDELIVERED, Waiting.PARKED),
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
@needs(Permission.LOOK)
def show() -> Response:
    """Show what waits for people, the oldest first; or one list of it, with `waiting`."""
    waiting = request.args.get("waiting")
    with services.current().database.snapshot() as connection:
        lists = Lists(connection, services.current().doorbell.failed_runs())
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
