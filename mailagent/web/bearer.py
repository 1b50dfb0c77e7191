"""Whether a request carries the bearer token of the shop's own systems, or of those that watch."""

from __future__ import annotations

import hmac

from flask import Response, jsonify, make_response, request

from mailagent import services


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
