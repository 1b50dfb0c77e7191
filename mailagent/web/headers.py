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
