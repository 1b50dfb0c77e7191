"""Guards: every view has exactly one, and the app refuses to start with a view that has none. Bearer
tokens (RFC 6750) and session cookies are here, too.
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
from mailagent.store.console import sessions

P = ParamSpec("P")
R = TypeVar("R")

SESSION_KEY = "login"


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


# These four check by themselves, because what they check is part of what they read.
signed_webhook = _guarded_by(Guard.WEBHOOK)
signed_link = _guarded_by(Guard.LINK)
bearer_token = _guarded_by(Guard.BEARER)
open_to_all = _guarded_by(Guard.OPEN)


class Person:
    """Somebody of the shop who is logged in."""

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


def needs(permission: Permission) -> Callable[[Callable[P, Response]], Callable[P, Response]]:
    """Let only people in who are logged in and have a permission. Whoever is not logged in is asked to,
    and comes back to the page they wanted; who has not the role gets 403."""

    def protect(view: Callable[P, Response]) -> Callable[P, Response]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> Response:
            person = find_person()
            if person is None:
                return _ask_to_log_in()
            if permission not in person.permissions:
                abort(403)
            g.person = person
            response = view(*args, **kwargs)
            # What these pages show belongs in no cache, also not in the browser's after the logout.
            response.headers["Cache-Control"] = "no-store"
            return response

        guarded.guard = Guard.LOGIN  # type: ignore[attr-defined]  # a view carries its guard
        guarded.permission = permission  # type: ignore[attr-defined]
        return guarded

    return protect


def find_person() -> Person | None:
    """Return who is logged in, by the row of their session; None for a stranger, and for somebody whose
    address is not among the settings any more."""
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
    """Return who this request is served for, in a view that `needs` a permission."""
    return cast(Person, g.person)


def _ask_to_log_in() -> Response:
    # After a POST the page that it came from would be lost anyway; the inbox is a good place to begin.
    wanted = request.full_path.rstrip("?") if request.method in ("GET", "HEAD") else None
    return cast(Response, redirect(url_for("ops_login.ask", next=wanted), 303))


def guard_of(view: Any) -> Guard | None:
    """Return the guard of a view, or None if it has none."""
    return getattr(view, "guard", None)


def check_guards(app: Flask) -> None:
    """Raise RuntimeError, naming them, if any view has no guard."""
    bare = [
        endpoint
        for endpoint, view in app.view_functions.items()
        if endpoint.rpartition(".")[2] != "static" and guard_of(view) is None
    ]
    if bare:
        raise RuntimeError(f"no guard stands at {', '.join(sorted(bare))}: see mailagent.web.guard")


# --- bearer ---------------------------------------------------------------------------------------


def is_authorised() -> bool:
    """Say whether the request has one of the tokens of `ORDERS_API_TOKEN`."""
    return carries_one_of(services.current().orders_api_tokens)


def carries_one_of(tokens: tuple[str, ...]) -> bool:
    """Say whether the request has one of these bearer tokens (RFC 6750 section 2.1)."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    sent = given.strip().encode("utf-8", "replace")
    # Every token is compared, so that the time taken does not tell which one was near.
    matches = [hmac.compare_digest(token.encode(), sent) for token in tokens]
    return scheme.lower() == "bearer" and any(matches)


def unauthorised() -> Response:
    """Return the answer to a request without it."""
    words = "the bearer token is missing or wrong"
    return make_response(jsonify(error=words), 401, {"WWW-Authenticate": "Bearer"})


# --- cookies --------------------------------------------------------------------------------------


class Cookies(SecureCookieSessionInterface):
    """Flask's signed cookies, without the age of the signature.

    Flask throws a cookie away that seems to be of the future: signed by a process whose clock is a second
    ahead of this one's. Whoever meets two such processes loses their form, or their login, in between.
    """

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if not app.secret_key:
            return None
        cookie = request.cookies.get(self.get_cookie_name(app))
        if not cookie:
            return self.session_class()  # webhooks bring none
        signer = self.get_signing_serializer(app)
        try:
            return self.session_class(signer.loads(cookie) if signer else None)
        except BadSignature:
            return self.session_class()

    def get_expiration_time(self, app: Flask, session: SessionMixin) -> datetime | None:
        if not session.permanent:
            return None
        return services.current().now() + app.permanent_session_lifetime
