"""Error responses: a page in the usual design for browsers, one line for programs, JSON below `/api`.

They do not read the database, because it may be what failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Response, g, json, render_template, request
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from mailagent import services
from mailagent.domain.operations.access import Role
from mailagent.store.errors import is_outage


@dataclass(frozen=True, slots=True)
class ErrorText:
    title: str
    lead: str
    to_do: str
    if_it_lasts: str = ""


TEXTS = {
    400: ErrorText(
        "This request cannot be read", "Nothing was changed.", "Go back, load the page again, and try again."
    ),
    403: ErrorText(
        "You may not open this page", "Nothing was changed.", "Log in by another address, or ask an operator."
    ),
    404: ErrorText(
        "There is no such page",
        "The address is wrong, or a part of it is missing.",
        "If it came by mail, open it with the button in the mail, or copy it to the last character.",
    ),
    405: ErrorText(
        "This address does not take that",
        "Nothing was changed.",
        "Go back, load the page again, and use its buttons.",
    ),
    413: ErrorText(
        "That is too large",
        "Nothing was recorded.",
        "A form takes up to 1 MB, and an answer 10 MB of files. Go back, and send less.",
    ),
    429: ErrorText("Too many tries", "Nothing was changed.", "Wait some minutes, then try again."),
    500: ErrorText(
        "Something went wrong here",
        "The fault is ours. Mail, refunds and decisions that were recorded are kept.",
        "Load the page again: it shows what was recorded. If this stays, tell the operators the time below.",
    ),
    503: ErrorText(
        "This is not available now", "It will be back by itself.", "Wait a minute, then load the page again."
    ),
}  # fmt: skip
# The page for customers and managers, who followed a link in a mail, if the database is down.
AWAY = ErrorText(
    TEXTS[503].title,
    "What was recorded is kept, and what waits goes on by itself.",
    "Wait a minute, then load the page again. If you had pressed a button, look then whether it was recorded.",
)
# The console's page if the database is down.
DATABASE_AWAY = ErrorText(
    "The database does not answer",
    "Mail that comes in meanwhile is delivered to us again, and what waits goes on by itself.",
    AWAY.to_do,
    "If this lasts longer than ten minutes, tell the operators: they get no mail from here until the database "
    "answers.",
)
FOR_OPERATORS = (
    "If you are an operator: see whether PostgreSQL is up, and what `flask check` says of "
    "DATABASE_URL."
)
_PROGRAMS = ("/api/", "/webhooks/", "/metrics", "/healthz", "/readyz", "/demo/state")


def answer_error(error: HTTPException) -> Response:
    """Return the response to a request that failed, with the error's own headers."""
    is_database_away = is_outage(getattr(error, "original_exception", None))
    if is_database_away:
        error = ServiceUnavailable(retry_after=60)
    status = error.code or 500
    response = Response(status=status)
    for name, value in error.get_headers(request.environ):
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    if request.path.startswith("/api/"):
        response.data, response.mimetype = json.dumps({"error": error.name}), "application/json"
    elif _is_browser():
        response.data = _render(error, status, is_database_away)
        response.mimetype = "text/html"
        response.headers["Cache-Control"] = "no-store"
    else:
        response.data, response.mimetype = f"{status} {error.name}\n", "text/plain"
    return response


def _render(error: HTTPException, status: int, is_database_away: bool) -> str:
    text, answered_at, for_operators = TEXTS.get(status), None, ""
    if is_database_away and is_console():
        text, answered_at = DATABASE_AWAY, services.current().database.answered_at
        for_operators = FOR_OPERATORS if _may_be_operator() else ""
    elif is_database_away:
        text = AWAY
    text = text or ErrorText(
        error.name, "Nothing was changed.", "Go back, load the page again, and try again."
    )
    return render_template(
        "error.html",
        status=status,
        text=text,
        for_operators=for_operators,
        at=datetime.now(UTC),
        answered_at=answered_at,
    )


def _may_be_operator() -> bool:
    """Return False if the request's guard has found a person who is no operator before the database went away.
    The roles of all others are unknown."""
    person = g.get("person")
    return person is None or Role.OPERATOR in person.roles


def is_console() -> bool:
    """Return whether the request is for a page of the console."""
    return request.path == "/ops" or request.path.startswith("/ops/")


def _is_browser() -> bool:
    """Return whether the client wants a page: browsers accept text/html by name, programs mostly only `*/*`."""
    return "text/html" in request.headers.get("Accept", "") and not request.path.startswith(
        _PROGRAMS
    )
