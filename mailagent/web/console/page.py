"""Functions that all pages of the console share: rendering, acts, paging, redaction, safe redirects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import sqlalchemy as sa
from flask import Response, abort, g, make_response, redirect, render_template, request

from mailagent import services
from mailagent.domain.mail.message import Purpose
from mailagent.domain.mail.redaction import without_keys
from mailagent.domain.refunds.goodwill import hide_code_shapes, hide_codes
from mailagent.domain.text import without_controls
from mailagent.store import audit
from mailagent.store.pagination import Part, Window, parse_cursor
from mailagent.web.guard import current_person, find_person

T = TypeVar("T")

# A path of the console only: no other host, no scheme, no double slashes.
_OPS_PATH = re.compile(r"/ops(?:/[A-Za-z0-9._~%+@:-]+)*/?(?:\?[A-Za-z0-9._~%+@:=&-]*)?")
_LONGEST_PATH = 500


def page(template: str, status: int = 200, **facts: Any) -> Response:
    """Return a page of the console that no cache keeps. Templates get `person`, who is logged in, and
    `subject_line`, which redacts a subject."""
    # The view's guard has usually found the person already.
    person = g.person if "person" in g else find_person()
    shared = {"person": person, "subject_line": redact_line}
    response = make_response(render_template(template, **shared, **facts), status)
    response.headers["Cache-Control"] = "no-store"
    return response


def not_found(what: str) -> Response:
    """Return the page for a missing row; `what` is a noun, such as "refund"."""
    return page("ops/not_found.html", 404, what=what)


def found(row: T | None, what: str) -> T:
    """Return a row. Without one, abort with the page of `not_found`."""
    if row is None:
        abort(not_found(what))
    return row


def go_to(path: str) -> Response:
    """Return a redirect after a form was handled."""
    return cast(Response, redirect(path, 303))


def record_act(
    connection: sa.Connection,
    action: audit.Action,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record in the audit log that the logged-in person did `action` to the row with the id `subject`."""
    now, email = services.current().now(), current_person().email
    audit.record(connection, now, email, action, subject, details)


def safe_path(wanted: str | None) -> str:
    """Return `wanted` if it is a path of the console, else the path of the inbox."""
    if wanted and len(wanted) <= _LONGEST_PATH and _OPS_PATH.fullmatch(wanted):
        climbs = ".." in wanted.partition("?")[0].split("/")
        return "/ops" if climbs else wanted
    return "/ops"


# --- paging ---------------------------------------------------------------------------------------


LONGEST_FIELD = 200
LATEST_YEAR = 2200


def read_window(newest_first: bool) -> Window:
    """Return the window of a list that the request's URL asks for. `newest_first`: the list's order."""
    order = request.args.get("order")
    if order in ("newest", "oldest"):
        newest_first = order == "newest"
    newer, older = (parse_cursor(request.args.get(name)) for name in ("newer", "older"))
    return Window(newest_first, newer, older if newer is None else None)


def address(path: str, facts: Mapping[str, Any]) -> str:
    """Return a path with those of the facts that are set as its URL parameters."""
    given = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def pages_beside(part: Part[Any], path: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the URLs of the pages with newer and with older rows, for the macro `pager`."""
    return {
        "newer": address(path, {**facts, "newer": part.newer}) if part.newer else None,
        "older": address(path, {**facts, "older": part.older}) if part.older else None,
    }


def typed(name: str, source: Mapping[str, str] | None = None) -> str:
    """Return the value of a field of the request (or of `source`): one line, without control characters, at
    most 200 characters; empty if it is missing."""
    text = (request.args if source is None else source).get(name, "")
    return " ".join(without_controls(text).split())[:LONGEST_FIELD]


def parse_day(text: str) -> datetime | None:
    """Return midnight (UTC) of a date such as 2026-11-20, or the minute of 2026-11-20T09:30, or None."""
    try:
        format_ = "%Y-%m-%dT%H:%M" if "T" in text else "%Y-%m-%d"
        day = datetime.strptime(text, format_).replace(tzinfo=UTC)
    except ValueError:
        return None
    return day if 1970 <= day.year < LATEST_YEAR else None


def parse_days(facts: Mapping[str, str]) -> tuple[datetime | None, datetime | None]:
    """Return the bounds of the dates or minutes "from" and "to"; the day or minute of "to" is included."""
    until, whole = parse_day(facts["to"]), {"minutes": 1} if "T" in facts["to"] else {"days": 1}
    return parse_day(facts["from"]), until and until + timedelta(**whole)


# --- redaction ------------------------------------------------------------------------------------


# Mails with a link that logs in or decides for its reader, so no other person may see their text.
SECRET_PURPOSES = frozenset({Purpose.LOGIN.value, Purpose.APPROVAL_REQUEST.value})

_LINK = re.compile(
    r"""(?:https?://[^\s<>"']{0,300})?/(?:approvals|helped|ops/login)/[^\s<>"')\]]+"""
)
# Reply addresses, as `domain.mail.message.token_address` writes them.
_REPLY_ADDRESS = re.compile(r"[a-z]{2,20}\+[a-z2-7]{16,32}@[\w.-]+", re.IGNORECASE)


def redact(text: str, codes: Sequence[str] = ()) -> str:
    """Return a text with secret links, reply addresses and discount codes redacted."""
    # Remove the secrets first: a line break may split a link, but `without_keys` still finds its secret.
    shown = _LINK.sub("[link]", without_keys(text))
    return hide_codes(_REPLY_ADDRESS.sub("[reply address]", shown), tuple(codes))


def redact_line(text: str) -> str:
    """Return a line of a list, such as a subject, redacted. It hides everything that looks like a discount
    code, because it does not look up the customer's codes."""
    return hide_code_shapes(redact(text))


def mask_code(code: str) -> str:
    """Return the part of a discount code by which people can recognise it but not use it."""
    return f"{code[:4]}-…"
