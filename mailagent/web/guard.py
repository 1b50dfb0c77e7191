"""Guards: a guard is a view's decorator that says who may call it. Every view has exactly one; without it the
app does not start. Bearer tokens (RFC 6750) and session cookies are here, too.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from flask import (
    Flask,
    Request,
    Response,
    abort,
    current_app,
    flash,
    g,
    jsonify,
    make_response,
    redirect,
    request,
    session,
    url_for,
)
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface, SessionMixin
from itsdangerous import BadSignature

from mailagent import services
from mailagent.domain.operations.access import Permission, Role, permissions_of, roles_of
from mailagent.domain.text import name_in_address
from mailagent.store import audit
from mailagent.store.console import sessions

P = ParamSpec("P")
R = TypeVar("R")

SESSION_KEY = "login"

# More than an answer's files may have, so that our page, and not the server, says that they are too large.
FORM_WITH_FILES_BYTES = 25 * 1024 * 1024


class Guard(StrEnum):
    WEBHOOK = "signed webhook"
    LINK = "signed link"
    LOGIN = "login + role"
    BEARER = "bearer token"
    OPEN = "open"


def _guarded_by(guard: Guard) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def mark(view: Callable[P, R]) -> Callable[P, R]:
        view.guard = guard  # type: ignore[attr-defined]  # a view carries its guard
        return view

    return mark


# With these guards, the view itself checks the request.
signed_webhook = _guarded_by(Guard.WEBHOOK)
signed_link = _guarded_by(Guard.LINK)
open_to_all = _guarded_by(Guard.OPEN)


class Person:
    """A logged-in person of the shop."""

    def __init__(self, email: str) -> None:
        shop = services.current().shop
        self.email = email
        self.roles = roles_of(email, shop)
        self.permissions = permissions_of(email, shop)

    def may(self, permission: str) -> bool:
        return Permission(permission) in self.permissions

    @property
    def is_manager(self) -> bool:
        return Role.MANAGER in self.roles

    @property
    def name(self) -> str:
        """The name that signs this person's answers."""
        return name_in_address(self.email)


def needs(permission: Permission) -> Callable[[Callable[P, Response]], Callable[P, Response]]:
    """Require a login and a permission. Without a login, redirect to the login page, which leads back
    afterwards; without the permission, respond 403."""

    def protect(view: Callable[P, Response]) -> Callable[P, Response]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> Response:
            person = find_person()
            if person is None:
                return _ask_to_log_in()
            if permission not in person.permissions:
                abort(403)
            # PostgreSQL refuses unprintable characters such as NUL.
            if not all(str(value).isprintable() for value in kwargs.values()):
                abort(404)
            g.person = person
            recorded = audit.count_recorded()
            response = view(*args, **kwargs)
            # Every act is recorded in the audit log. So a handled form without an entry has changed nothing,
            # and we say so, unless the view has flashed its own reason.
            is_handled = request.method == "POST" and response.status_code == 303
            if is_handled and audit.count_recorded() == recorded and "_flashes" not in session:
                flash("Your click changed nothing.")
            # No cache may keep these pages, so that the browser cannot show them after the logout.
            response.headers["Cache-Control"] = "no-store"
            return response

        guarded.guard = Guard.LOGIN  # type: ignore[attr-defined]  # a view carries its guard
        guarded.permission = permission  # type: ignore[attr-defined]
        return guarded

    return protect


def takes_files(view: Callable[P, R]) -> Callable[P, R]:
    """Allow the form of a view to have files."""
    view.takes_files = True  # type: ignore[attr-defined]  # `allow_files` looks at it
    return view


def allow_files() -> None:
    """Raise the limit of the request's size if the view takes files and the person is logged in. Call it before
    anything reads the form."""
    view = current_app.view_functions.get(request.endpoint or "")
    if getattr(view, "takes_files", False) and SESSION_KEY in session:
        request.max_content_length = FORM_WITH_FILES_BYTES


def find_person() -> Person | None:
    """Return the logged-in person, by the row of their session; None without a login, or if the settings do not
    name the address any more."""
    secret = session.get(SESSION_KEY)
    if not isinstance(secret, str):
        return None
    live = services.current()
    with live.database.snapshot() as connection:
        email = sessions.find_email(
            connection, secret, live.now(), needs_factor=live.totp is not None
        )
    person = Person(email) if email else None
    return person if person and person.roles else None


def current_person() -> Person:
    """Return the logged-in person. Only for views that `needs` guards."""
    return cast(Person, g.person)


def _ask_to_log_in() -> Response:
    # A POST cannot be repeated after the login: go to the inbox instead.
    wanted = request.full_path.rstrip("?") if request.method in ("GET", "HEAD") else None
    return cast(Response, redirect(url_for("ops_login.ask", next=wanted), 303))


def guard_of(view: Any) -> Guard | None:
    """Return the guard of a view, or None."""
    return getattr(view, "guard", None)


def check_guards(app: Flask) -> None:
    """Raise RuntimeError if a view has no guard."""
    bare = [
        endpoint
        for endpoint, view in app.view_functions.items()
        if endpoint.rpartition(".")[2] != "static" and guard_of(view) is None
    ]
    if bare:
        raise RuntimeError(
            f"these views have no guard: {', '.join(sorted(bare))}; see mailagent.web.guard"
        )


# --- bearer ---------------------------------------------------------------------------------------


def bearer_token(
    list_tokens: Callable[[], tuple[str, ...]],
) -> Callable[[Callable[P, Response]], Callable[P, Response]]:
    """Require one of these bearer tokens (RFC 6750 section 2.1); without one, respond 401."""

    def protect(view: Callable[P, Response]) -> Callable[P, Response]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> Response:
            if not _carries_one_of(list_tokens()):
                problem = jsonify(error="the bearer token is missing or wrong")
                return make_response(problem, 401, {"WWW-Authenticate": "Bearer"})
            return view(*args, **kwargs)

        return _guarded_by(Guard.BEARER)(guarded)

    return protect


def _carries_one_of(tokens: tuple[str, ...]) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    sent = given.strip().encode("utf-8", "replace")
    # Compare with every token, so that the time of the comparison reveals nothing.
    matches = [hmac.compare_digest(token.encode(), sent) for token in tokens]
    return scheme.lower() == "bearer" and any(matches)


# --- cookies --------------------------------------------------------------------------------------


class Cookies(SecureCookieSessionInterface):
    """Flask's signed cookies, without a check of their age.

    Flask discards a cookie from the future. If the clocks of two processes differ by a second, people would
    lose their login or their form.
    """

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if not app.secret_key:
            return None
        cookie = request.cookies.get(self.get_cookie_name(app))
        if not cookie:
            return self.session_class()  # no cookie, as in a webhook's request
        signer = self.get_signing_serializer(app)
        try:
            return self.session_class(signer.loads(cookie) if signer else None)
        except BadSignature:
            return self.session_class()

    def get_expiration_time(self, app: Flask, session: SessionMixin) -> datetime | None:
        if not session.permanent:
            return None
        return services.current().now() + app.permanent_session_lifetime
