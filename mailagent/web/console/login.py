"""Login by a mailed link, and a second factor (TOTP).

Opening the link changes nothing, because mail scanners open links; the button on its page logs in. The response
to a request for a link is the same, and takes the same time, whether the address may log in or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import sqlalchemy as sa
from flask import Blueprint, Response, abort, redirect, request, session, url_for
from werkzeug.wrappers import Response as AnyResponse

from mailagent import mailers, services
from mailagent.adapters.totp import Totp, draw
from mailagent.domain.operations.access import roles_of
from mailagent.domain.text import is_one_line
from mailagent.store import audit
from mailagent.store.console import sessions
from mailagent.store.database import Row
from mailagent.web.console.page import page, safe_path
from mailagent.web.guard import SESSION_KEY, open_to_all, signed_link

blueprint = Blueprint("ops_login", __name__)

LINK_LIVES = timedelta(minutes=15)
LINKS_PER_ADDRESS = 5
# The most attempts of one client that we record. It blocks no login, because behind a proxy all clients look
# the same.
ATTEMPTS_PER_CLIENT = 30
LONGEST_ADDRESS = 254  # RFC 5321 section 4.5.3.1.3


@blueprint.get("/ops/login")
@open_to_all
def ask() -> Response:
    """Show the form that asks for a link; if the database is down, a page that says so."""
    with services.current().database.snapshot() as connection:
        connection.execute(sa.select(1))
    return page("ops/login.html", next_path=safe_path(request.args.get("next")))


@blueprint.post("/ops/login")
@open_to_all
def send_link() -> Response:
    """Mail a link to an address that may log in. For any other address the response is the same."""
    email = request.form.get("email", "").strip().casefold()
    next_path = safe_path(request.form.get("next"))
    if not email or len(email) > LONGEST_ADDRESS or not is_one_line(email) or "@" not in email:
        return page("ops/login.html", 422, next_path=next_path, problem=True)
    live = services.current()
    now, client_address = live.now(), request.remote_addr or ""
    with live.database.transaction() as connection:
        attempts = sessions.count_attempts(connection, client_address, now - LINK_LIVES)
        if attempts < ATTEMPTS_PER_CLIENT:
            sessions.record_attempt(connection, email, client_address, now)
        asked = sessions.count_links(connection, email, now - LINK_LIVES)
        # Write a link for any address, and roll it back if the address may not log in: so both take the same
        # time.
        with connection.begin_nested() as written:
            _write_link(connection, email, next_path)
            if asked >= LINKS_PER_ADDRESS or not roles_of(email, live.shop):
                written.rollback()
    minutes = int(LINK_LIVES.total_seconds() // 60)
    return page("ops/login_sent.html", email=email, minutes=minutes, most=LINKS_PER_ADDRESS)


def make_link(connection: sa.Connection, email: str, next_path: str) -> str:
    """Record a link that logs a person in, once and for LINK_LIVES, and return it."""
    live, secret = services.current(), sessions.new_secret()
    now = live.now()
    sessions.record_link(connection, secret, email, next_path, now, now + LINK_LIVES)
    return f"{live.shop.public_url}/ops/login/{quote(secret)}"


def _write_link(connection: sa.Connection, email: str, next_path: str) -> None:
    url = make_link(connection, email, next_path)
    outbound_id = mailers.write_login_link(connection, email, url, LINK_LIVES)
    services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)


@blueprint.get("/ops/login/<secret>")
@signed_link
def open_link(secret: str) -> Response:
    """Show the address of the link, and the button that logs in."""
    with services.current().database.snapshot() as connection:
        link = _find_link(connection, secret)
    return page("ops/login_confirm.html", email=link.email)


def _find_link(connection: sa.Connection, secret: str) -> Row:
    """Return the link with this secret, if it still works and its person may log in. Abort with a page for any
    other."""
    live = services.current()
    link = sessions.find_link(connection, secret, live.now())
    if link is None or not roles_of(link.email, live.shop):
        abort(page("ops/login_too_late.html", 404))
    return link


@blueprint.post("/ops/login/<secret>")
@signed_link
def log_in(secret: str) -> AnyResponse:
    """Use up the link, and start a new session."""
    live = services.current()
    now = live.now()
    with live.database.transaction() as connection:
        link = _find_link(connection, secret)
        if not sessions.use_link(connection, secret, now):
            return page("ops/login_too_late.html", 404)
        cookie = sessions.new_secret()
        if live.totp:
            until, offered = now + LINK_LIVES, live.totp.make_secret()
            sessions.begin(connection, cookie, link.email, now, until, offered_secret=offered)
        else:
            _begin(connection, cookie, link.email)
    next_path = safe_path(link.next_path)
    if live.totp:
        next_path = url_for("ops_login.ask_for_code", next=next_path)
    return _go_on(cookie, next_path)


def _begin(
    connection: sa.Connection, cookie: str, email: str, verified_at: datetime | None = None
) -> None:
    live = services.current()
    now = live.now()
    until = now + timedelta(seconds=live.waits.ops_session_seconds)
    sessions.begin(connection, cookie, email, now, until, verified_at=verified_at)
    audit.record(connection, now, email, "logged in", "ops")


def _go_on(cookie: str, path: str) -> AnyResponse:
    session.clear()
    session.permanent = True
    session[SESSION_KEY] = cookie
    return redirect(path, 303)


@blueprint.post("/ops/logout")
@open_to_all
def log_out() -> AnyResponse:
    """End the session in the browser and in the database."""
    secret = session.get(SESSION_KEY)
    live = services.current()
    if isinstance(secret, str):
        with live.database.transaction() as connection:
            email = sessions.find_email(connection, secret, live.now())
            sessions.end(connection, secret, live.now())
            if email:
                audit.record(connection, live.now(), email, "logged out", "ops")
    session.clear()
    return redirect(url_for("ops_login.ask"), 303)


# --- second factor --------------------------------------------------------------------------------


# Why a code is refused, and the status of the response.
_STATUS = {None: 200, "wrong": 422, "locked": 429}


@dataclass(frozen=True, slots=True)
class _Half:
    """A session that waits for its code. `offered` is the encrypted secret to enrol."""

    cookie: str
    email: str
    offered: str
    totp: Totp


def _find_half(connection: sa.Connection) -> _Half:
    """Return the session that waits for its code. Redirect to the login if there is none."""
    live, cookie = services.current(), session.get(SESSION_KEY)
    found = None
    if live.totp is not None and isinstance(cookie, str):
        found = sessions.find_half(connection, cookie, live.now())
    if live.totp is None or found is None or not roles_of(found[0], live.shop):
        response = redirect(url_for("ops_login.ask"), 303)
        response.headers["Cache-Control"] = "no-store"
        abort(response)
    return _Half(str(cookie), *found, live.totp)


@blueprint.get("/ops/login/second-factor")
@open_to_all
def ask_for_code() -> AnyResponse:
    """Ask for the code. A person without an authenticator app sees the secret for it."""
    with services.current().database.snapshot() as connection:
        return _page(connection, _find_half(connection), None)


@blueprint.post("/ops/login/second-factor")
@open_to_all
def check() -> AnyResponse:
    """Check the code. If it is right, replace the session by a full one with a new secret."""
    live = services.current()
    with live.database.transaction() as connection:
        half = _find_half(connection)
        problem = _find_problem(connection, half, request.form.get("code", ""))
        if problem:
            return _page(connection, half, problem)
        cookie, now = sessions.new_secret(), live.now()
        sessions.end(connection, half.cookie, now)
        _begin(connection, cookie, half.email, verified_at=now)
    return _go_on(cookie, safe_path(request.form.get("next")))


def _find_problem(connection: sa.Connection, half: _Half, typed: str) -> str | None:
    """Use up a correct code, and return None; else record the wrong code, and return the problem."""
    now = services.current().now()
    enrolled = sessions.find_secret(connection, half.email, for_update=True)
    if sessions.is_locked(connection, half.email, now):
        return "locked"
    step = half.totp.find_step(enrolled or half.offered, typed, now)
    if step is not None:
        if enrolled and sessions.use_step(connection, half.email, step):
            return None
        if not enrolled and sessions.enrol(connection, half.email, half.offered, step, now):
            return None
    audit.record(connection, now, half.email, sessions.REFUSED, half.email)
    return "wrong"


def _page(connection: sa.Connection, half: _Half, problem: str | None) -> Response:
    facts: dict[str, object] = {}
    enrolled = sessions.find_secret(connection, half.email)
    secret = half.totp.reveal(enrolled or half.offered)
    if not enrolled and secret:
        uri = half.totp.uri(secret, half.email)
        groups = [secret[at : at + 4] for at in range(0, len(secret), 4)]
        facts = {"secret": " ".join(groups), "uri": uri, "qr_code": draw(uri)}
    return page(
        "ops/second_factor.html",
        _STATUS[problem],
        email=half.email,
        problem=problem,
        is_readable=secret is not None,
        next_path=safe_path(request.values.get("next")),
        minutes=int(sessions.COUNTED_FOR.total_seconds() // 60),
        most=sessions.WRONG_CODES,
        **facts,
    )
