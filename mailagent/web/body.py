"""A webhook's body as bytes: whole, or an exception. What is in it belongs to the adapters."""

from __future__ import annotations

from flask import Request

# SendGrid posts at most 30 MB of mail; the rest is room for the other fields.
LARGEST_BYTES = 40 * 1024 * 1024


class NotWhole(Exception):
    """The body did not arrive whole, or is longer than we take; the text says how much of it came."""


def read_body(request: Request, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """Return the very bytes of the body, at most `largest_bytes`. Raises NotWhole.

    To be called before anything touches `request.form`: afterwards the bytes are gone, and with them
    what was signed. Forms are never used here, so their 500 kB limit does not apply either.
    """
    request.max_content_length = largest_bytes + 1  # a longer chunked body is cut there, silently
    expected = request.content_length
    try:
        body = request.get_data(cache=False, parse_form_data=False)
    except Exception as problem:
        # A chunked body that ends early raises whatever the server calls that.
        raise NotWhole(f"{type(problem).__name__}: {problem}") from problem
    if len(body) > largest_bytes:
        raise NotWhole(f"more than {largest_bytes} bytes came")
    # Under gunicorn a body of announced length that breaks off looks like one that ended.
    if expected is not None and len(body) != expected:
        raise NotWhole(f"{len(body)} of {expected} bytes came")
    return body
