"""Ids of rows: time-ordered, unguessable enough to be harmless in a mail, and named by their owner."""

from __future__ import annotations

import base64
import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no letters to mistake


def new_id(kind: str) -> str:
    """Return a fresh id such as `refund_01jd…`: 48 bits of milliseconds, 80 of chance.

    Rows made together lie together in the index, which keeps inserts cheap in large tables.
    """
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    digits = []
    for _ in range(26):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return f"{kind}_{''.join(reversed(digits))}"


def new_number() -> int:
    """Return a fresh id for a row whose key is a number of 64 bits: milliseconds, then 21 bits of chance."""
    return (time.time_ns() // 1_000_000) << 21 | secrets.randbits(21)


def new_token() -> str:
    """Return a secret for a reply address: 100 bits in lower-case base 32.

    Mail clients mangle the case of local parts, so the token has none (RFC 5321 section 2.4).
    """
    return base64.b32encode(secrets.token_bytes(13)).decode().lower()[:20]
