"""Ids of rows: they sort by time, begin with the kind of row, and are hard enough to guess to stand in a
mail."""

from __future__ import annotations

import base64
import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no letters to mistake


def new_id(kind: str) -> str:
    """Return a new id such as `refund_01jd…`: the `kind`, 48 bits of milliseconds, 80 random bits.

    Rows of the same time are neighbours in the index, which keeps inserts fast in large tables.
    """
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    digits = []
    for _ in range(26):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return f"{kind}_{''.join(reversed(digits))}"


def new_number() -> int:
    """Return a new id for a row whose key is a number of 64 bits: milliseconds, then 21 random bits."""
    return (time.time_ns() // 1_000_000) << 21 | secrets.randbits(21)


def new_token() -> str:
    """Return a secret for a reply address: 100 random bits in lower-case base 32.

    Mail programs change the case of local parts (RFC 5321 section 2.4), so the token has only lower case.
    """
    return base64.b32encode(secrets.token_bytes(13)).decode().lower()[:20]
