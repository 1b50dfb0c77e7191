"""The second step of a login, if OPS_SECOND_FACTOR asks for it: a code of an authenticator app.

Until it is done the session opens this page and no other. The first code that is right enrols the app.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

import sqlalchemy as sa
from flask import Blueprint, Response, redirect, request, session, url_for
from werkzeug.wrappers import Response as AnyResponse

from mailagent import services
from mailagent.adapters.totp import Totp, draw
from mailagent.domain.operations.access import roles_of
from mailagent.store import audit
from mailagent.store.console import second_factors, sessions
from mailagent.web.console.pages import page, safe_path
from mailagent.web.guard import SESSION_KEY, open_to_all

blueprint = Blueprint("ops_second_factor", __name__)


class Problem(Enum):
    WRONG = "wrong"
    LOCKED = "locked"


@dataclass(frozen=True, slots=True)
class _Half:
    """A session that waits for its code. `offered` is the secret to enrol, encrypted."""

    cookie: str
    email: str
    offered: str
    totp: Totp


def _find_half(connection: sa.Connection) -> _Half | None:
    live, cookie = services.current(), session.get(SESSION_KEY)
    if live.totp is None or not isinstance(cookie, str):
        return None
    found = sessions.find_half(connection, cookie, live.now())
    if found is None or not roles_of(found[0], live.shop):
        return None
    return _Half(cookie, *found, live.totp)


@blueprint.get("/ops/login/second-factor")
@open_to_all
def ask() -> AnyResponse:
    """Ask for the code; who has no app yet is shown the secret for it. Changes nothing."""
    with services.current().database.snapshot() as connection:
        half = _find_half(connection)
        if half is None:
            return _elsewhere()
        return _page(connection, half, None)


@blueprint.post("/ops/login/second-factor")
@open_to_all
def check() -> AnyResponse:
    """Check the code. If it is right, a full session with a secret of its own takes over."""
    live = services.current()
    with live.database.transaction() as connection:
        half = _find_half(connection)
        if half is None:
            return _elsewhere()
        problem = _find_problem(connection, half, request.form.get("code", ""))
        if problem:
            return _page(connection, half, problem)
        cookie, now = sessions.new_secret(), live.now()
        sessions.end(connection, half.cookie, now)
        lasts = timedelta(seconds=live.waits.ops_session_seconds)
        sessions.begin(connection, cookie, half.email, now, now + lasts, verified_at=now)
        audit.record(connection, now, half.email, "logged in", "ops")
    session.clear()
    session.permanent = True
    session[SESSION_KEY] = cookie
    return redirect(safe_path(request.form.get("next")), 303)


def _find_problem(connection: sa.Connection, half: _Half, typed: str) -> Problem | None:
    """Use the code up that was typed, and return None; or record that it is wrong, and return why."""
    now = services.current().now()
    enrolled = second_factors.find(connection, half.email, for_update=True)
    if second_factors.is_locked(connection, half.email, now):
        return Problem.LOCKED
    secret = enrolled.encrypted_secret if enrolled else half.offered
    step = half.totp.find_step(secret, typed, now)
    if step is not None:
        if enrolled and second_factors.use_step(connection, half.email, step):
            return None
        if not enrolled and second_factors.enrol(connection, half.email, secret, step, now):
            return None
    second_factors.refuse(connection, half.email, now)
    return Problem.WRONG


def _page(connection: sa.Connection, half: _Half, problem: Problem | None) -> Response:
    facts: dict[str, object] = {}
    enrolled = second_factors.find(connection, half.email)
    secret = half.totp.reveal(enrolled.encrypted_secret if enrolled else half.offered)
    if not enrolled and secret:
        uri = half.totp.uri(secret, half.email)
        groups = [secret[at : at + 4] for at in range(0, len(secret), 4)]
        facts = {"secret": " ".join(groups), "uri": uri, "qr_code": draw(uri)}
    status = {None: 200, Problem.WRONG: 422, Problem.LOCKED: 429}[problem]
    return page(
        "ops/second_factor.html",
        status,
        email=half.email,
        problem=problem.value if problem else None,
        is_readable=secret is not None,
        next_path=safe_path(request.values.get("next")),
        minutes=int(second_factors.COUNTED_FOR.total_seconds() // 60),
        most=second_factors.WRONG_CODES,
        **facts,
    )


def _elsewhere() -> AnyResponse:
    response = redirect(url_for("ops_login.ask"), 303)
    response.headers["Cache-Control"] = "no-store"
    return response
