"""Cookies that do not depend on clocks. How long a login lasts is said by its row, by the database's clock."""

from __future__ import annotations

from datetime import datetime

from flask import Flask, Request
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface, SessionMixin
from itsdangerous import BadSignature

from mailagent import services


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
