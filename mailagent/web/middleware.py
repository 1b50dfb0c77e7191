"""Security headers, and what logs and spans say of a request: its route and row, never its path, which
may hold the token of a link.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from flask import Flask, Response, current_app, g, request

from mailagent.telemetry import log_ids, spans

# The platform asks for these every few seconds.
_UNTOLD = ("health", "metrics")


class App(Flask):
    """Flask, but what it logs of a request that failed is the route and not the address."""

    def log_exception(self, exc_info: Any) -> None:
        """Log that a request failed, with its traceback."""
        self.logger.error("Exception on %s [%s]", _route(), request.method, exc_info=exc_info)


def _route() -> str:
    rule = request.url_rule
    return rule.rule if rule else "unknown"


def watch(app: Flask) -> None:
    """Mark every request of an app."""
    app.before_request(_begin)
    app.after_request(_note_status)
    app.teardown_request(_end)


def _begin() -> None:
    # Not taken back at the end: the server's own line about the request is written after that.
    log_ids.begin(request.view_args or {})
    if spans.is_on() and request.blueprint not in _UNTOLD:
        g.marks = ExitStack()
        g.marks.enter_context(spans.request(request.method, _route()))
        log_ids.begin(request.view_args or {}, trace_id=spans.trace_id())


def _note_status(response: Response) -> Response:
    if "marks" in g:
        spans.note_status(response.status_code)
    return response


def _end(_problem: BaseException | None) -> None:
    marks = g.pop("marks", None)
    if marks is not None:
        marks.close()


# --- headers --------------------------------------------------------------------------------------


# No inline style or script anywhere, nothing from outside, never in a frame, forms only to us.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

# For this host only: what else a shop has under its name is not ours to decide on.
STRICT_TRANSPORT_SECURITY = "max-age=31536000"


# What an answer has already that a view set itself stays.
_DEFAULTS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}
_DEFAULTS_OVER_HTTPS = {
    **_DEFAULTS,
    "Strict-Transport-Security": STRICT_TRANSPORT_SECURITY,
}


def harden(response: Response) -> Response:
    """Add the headers that a view did not set itself."""
    # The session's cookie is for HTTPS only if PUBLIC_URL is, and then so are we.
    is_secure = current_app.config["SESSION_COOKIE_SECURE"]
    there = {name.lower() for name, _value in response.headers}
    for name, value in (_DEFAULTS_OVER_HTTPS if is_secure else _DEFAULTS).items():
        if name.lower() not in there:
            response.headers.add(name, value)
    return response
