"""Adds security headers to responses, and the ids and the route of a request to logs and spans.

Neither logs nor spans get the path, because it may contain the token of a link.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from flask import Flask, Response, current_app, g, request

from mailagent.telemetry import log_ids, spans

# Health checks and Prometheus poll these every few seconds, so we make no spans for them.
_UNTRACED = ("health", "metrics")


class App(Flask):
    """Flask, but it logs the route of a failed request instead of its path."""

    def log_exception(self, exc_info: Any) -> None:
        self.logger.error(
            "event=request_failed: answered 500 or 503: Exception on %s [%s]",
            _route(),
            request.method,
            exc_info=exc_info,
        )


def _route() -> str:
    rule = request.url_rule
    return rule.rule if rule else "unknown"


def watch(app: Flask) -> None:
    """Add the ids of every request to its log lines, and trace it."""
    app.before_request(_begin)
    app.after_request(_note_status)
    app.teardown_request(_end)


def _begin() -> None:
    # Do not reset it after the request, because gunicorn writes its access log line later.
    log_ids.begin(request.view_args or {})
    if spans.is_on() and request.blueprint not in _UNTRACED:
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

# Without includeSubDomains: only for this host, not for other hosts of the shop's domain.
STRICT_TRANSPORT_SECURITY = "max-age=31536000"


_DEFAULTS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}


def harden(response: Response) -> Response:
    """Add the security headers that the view has not set."""
    for name, value in _DEFAULTS.items():
        response.headers.setdefault(name, value)
    # The session's cookie is secure if, and only if, PUBLIC_URL is https.
    if current_app.config["SESSION_COOKIE_SECURE"]:
        response.headers.setdefault("Strict-Transport-Security", STRICT_TRANSPORT_SECURITY)
    return response
