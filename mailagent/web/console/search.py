"""The search: an id redirects to its page, anything else gives a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import sqlalchemy as sa
from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import MailStatus
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.console import search
from mailagent.store.console.entries import Entry
from mailagent.store.console.search import SQLITE_READS, Kind, TooMuchWork, Wanted
from mailagent.store.pagination import Part, Window
from mailagent.web.console.lines import lines_of
from mailagent.web.console.page import (
    address,
    day_after,
    page,
    pages_beside,
    parse_day,
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


@dataclass(frozen=True, slots=True)
class Question:
    """The query, and the same as parameters of an address. `requests`: there is something to search for."""

    wanted: Wanted
    facts: dict[str, str]
    requests: bool


@blueprint.get("/ops/search")
@needs(Permission.VIEW)
def show() -> Response:
    """Show the results, or the form alone."""
    words = typed("q")
    with services.current().database.snapshot() as connection:
        path = _find_path(connection, words)
        if path is not None:
            return cast(Response, redirect(path, 303))
        order = search.find_order(connection, words) if words else None
        question = _read_question(words, is_order=order is not None)
        window = read_window(newest_first=True)
        question.facts["order"] = "" if window.newest_first else "oldest"
        found, too_much = _find(connection, question, window)
        shown: dict[str, Any] = {"lines": lines_of(connection, found.rows)}
        if connection.dialect.name == "sqlite" and question.wanted.kind is Kind.MAILS:
            shown["reads_only"] = SQLITE_READS
    facts = question.facts
    return page(
        "ops/search.html",
        422 if too_much else 200,
        words=words,
        kind=question.wanted.kind.value,
        tabs=[(each.value, address("/ops/search", {**facts, "kind": each.value, "state": ""}))
              for each in Kind],
        states=STATES[question.wanted.kind],
        facts=facts,
        requests=question.requests,
        order=order,
        too_much=too_much,
        begun=window.cursor is not None,
        now=services.current().now(),
        **shown,
        **pages_beside(found, "/ops/search", facts),
    )  # fmt: skip


def _find_path(connection: sa.Connection, words: str) -> str | None:
    """Return the path of the row or run with this id, or None."""
    place = search.find_place(connection, words)
    if place is not None:
        kind, row_id = place
        return f"/ops/{kind}s/{row_id}"
    is_id = bool(words) and " " not in words and "-" in words
    may = Permission.RUNS in current_person().permissions
    if is_id and may and services.current().workflow_client.runs.find_run(words) is not None:
        return f"/ops/runs/{quote(words, safe='')}"
    return None


def _read_question(words: str, is_order: bool) -> Question:
    kind = _kind(words, is_order)
    state = request.args.get("state")
    state = state if state in STATES[kind] else None
    days = {name: typed(name) for name in ("from", "to")}
    since, until = parse_day(days["from"]), day_after(parse_day(days["to"]))
    facts = {"q": words, "kind": kind.value, "state": state or ""}
    facts |= {name: day for name, day in days.items() if parse_day(day)}
    requests = bool(words or state or since or until or request.args.get("kind"))
    return Question(Wanted(words, kind, state, since, until), facts, requests)


def _kind(words: str, is_order: bool) -> Kind:
    asked = request.args.get("kind")
    if asked in tuple(Kind):
        return Kind(asked)
    if is_order:
        return Kind.REFUNDS
    return Kind.CONVERSATIONS if "@" in words or not words else Kind.MAILS


def _find(
    connection: sa.Connection, question: Question, window: Window
) -> tuple[Part[Entry], bool]:
    if not question.requests:
        return Part(()), False
    try:
        return search.find(connection, question.wanted, window), False
    except TooMuchWork:
        connection.rollback()
        return Part(()), True
