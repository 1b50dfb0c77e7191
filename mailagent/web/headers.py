"""What every answer tells a browser to refuse, whoever asked and whatever came of it."""

from __future__ import annotations

from flask import Response, current_app

# No inline style or script anywhere, nothing from outside, never in a frame, forms only to us.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

# For this host only: what else a shop has under its name is not ours to decide on.
STRICT_TRANSPORT_SECURITY = "max-age=31536000"


def harden(response: Response) -> Response:
    """Add the headers that a view did not set itself."""
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("X-Frame-Options", "DENY")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    # The session's cookie is for HTTPS only if PUBLIC_URL is, and then so are we.
    if current_app.config["SESSION_COOKIE_SECURE"]:
        response.headers.setdefault("Strict-Transport-Security", STRICT_TRANSPORT_SECURITY)
    return response
