"""The search: an id redirects to its page, anything else gives a list."""

from __future__ import annotations

import re

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import MailStatus
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.console import search
from mailagent.store.console.inbox import Entry
from mailagent.store.console.search import SQLITE_READS, Kind, TooMuchWork, Wanted
from mailagent.store.pagination import Part
from mailagent.web.console.labels import run_path
from mailagent.web.console.lines import lines_of
from mailagent.web.console.page import (
    address,
    go_to,
    page,
    pages_beside,
    parse_day,
    parse_days,
    read_window,
    typed,
)
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_search", __name__)

STATES: dict[Kind, tuple[str, ...]] = {
    Kind.CONVERSATIONS: tuple(status.value for status in ConversationStatus),
    Kind.MAILS: tuple(status.value for status in MailStatus),
    Kind.REFUNDS: tuple(status.value for status in RefundStatus),
}

# The address in "Ada Example <ada@example.com>", as mail programs write it.
_IN_BRACKETS = re.compile(r"<([^<>\s]+@[^<>\s]+)>")


@blueprint.get("/ops/search")
@needs(Permission.VIEW)
def show() -> Response:
    """Show the results, or the form alone. If the query is an id, redirect to its page."""
    query, too_many = typed("q"), False
    with services.current().database.snapshot() as connection:
        path = _find_path(connection, query)
        if path is not None:
            return go_to(path)
        order = search.find_order(connection, query) if query else None
        days = {name: typed(name) for name in ("from", "to")}
        wanted = _read_filters(query, days, has_refunds=order is not None and order.has_refunds)
        has_query = bool(wanted.words or wanted.state or wanted.since or wanted.until)
        has_query = has_query or bool(request.args.get("kind"))
        window = read_window(newest_first=True)
        found: Part[Entry] = Part(())
        try:
            if has_query:
                found = search.find(connection, wanted, window)
        except TooMuchWork:
            connection.rollback()
            too_many = True
        lines = lines_of(connection, found.rows)
        is_sqlite = connection.dialect.name == "sqlite"
    facts = {"q": query, "kind": wanted.kind.value, "state": wanted.state or ""}
    facts |= {name: day for name, day in days.items() if parse_day(day)}
    facts["order"] = "" if window.newest_first else "oldest"
    return page(
        "ops/search.html",
        422 if too_many else 200,
        query=query,
        kind=wanted.kind.value,
        tabs=[
            (each.value, address("/ops/search", {**facts, "kind": each.value, "state": ""}))
            for each in Kind
        ],
        states=STATES[wanted.kind],
        facts=facts,
        has_query=has_query,
        order=order,
        too_many=too_many,
        begun=window.cursor is not None,
        now=services.current().now(),
        lines=lines,
        searched_mails=SQLITE_READS if is_sqlite and wanted.kind is not Kind.REFUNDS else None,
        **pages_beside(found, "/ops/search", facts),
    )


def _find_path(connection: sa.Connection, query: str) -> str | None:
    place = search.find_place(connection, query)
    if place is not None:
        kind, row_id = place
        return f"/ops/{kind}s/{row_id}"
    if not query or " " in query or "-" not in query or not current_person().may(Permission.RUNS):
        return None
    return run_path(query) if services.current().workflow_client.runs.find_run(query) else None


def _read_filters(query: str, days: dict[str, str], has_refunds: bool) -> Wanted:
    kind = Kind.CONVERSATIONS if "@" in query or not query else Kind.MAILS
    if request.args.get("kind") in tuple(Kind):
        kind = Kind(request.args["kind"])
    elif has_refunds:
        kind = Kind.REFUNDS
    address = _IN_BRACKETS.search(query)
    if address and kind is not Kind.MAILS:  # those are found by words alone
        query = address[1]
    state = request.args.get("state")
    return Wanted(query, kind, state if state in STATES[kind] else None, *parse_days(days))
