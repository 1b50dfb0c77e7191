"""Parsers of single settings. Each returns the value, or raises ValueError, whose text says what to write."""

from __future__ import annotations

from urllib.parse import urlsplit

import sqlalchemy as sa

from mailagent.domain.mail.authentication import ascii_domain, normalise_address
from mailagent.domain.text import is_one_line

MOST_DAYS = 3650
MOST_SECONDS = MOST_DAYS * 24 * 3600
KEY_MIN_LENGTH = 32
KEY_MIN_DIFFERENT = 8

HOW_TO_MAKE_ONE = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(48))"'
MOST_CONVERSATIONS = 10_000
MOST_A_MINUTE = 1_000_000_000
MOST_MAILS_AN_HOUR = 100_000_000

_DRIVERS = ("sqlite", "postgresql+psycopg")


def parse_address(text: str) -> str:
    """Return a mail address in normal form."""
    address = normalise_address(text)
    if address is None or "." not in address.rpartition("@")[2]:
        raise ValueError(f"{text!r} is not a mail address; write it bare, like mona@shop.com")
    return address


def parse_domain(text: str) -> str:
    """Return a mail domain in lower-case A-label form."""
    domain = ascii_domain(text)
    if domain is None or "." not in domain:
        raise ValueError(f"{text!r} is not a domain; write a host name like reply.shop.com")
    return domain


def parse_line(text: str) -> str:
    """Return a text of one line, such as a name."""
    if len(text) > 200 or not is_one_line(text):
        raise ValueError(
            "is over 200 characters or has line breaks or control characters; write one line"
        )
    return text


def parse_locale(text: str) -> str:
    """Return a locale as Babel names it, such as `de` or `de_CH`."""
    from babel import Locale, UnknownLocaleError  # slow to import

    try:
        return str(Locale.parse(text.replace("-", "_")))
    except (ValueError, UnknownLocaleError):
        raise ValueError(f"{text!r} is not a language; write one like de or de_CH") from None


def parse_key(text: str) -> str:
    """Return a key that goes into an HTTP header."""
    if not text.isascii() or not text.isprintable() or " " in text:
        # This text is logged, so it must not hold the key.
        raise ValueError("has characters that no key has; copy the whole key again, on one line")
    return text


def parse_webhook_secret(text: str) -> str:
    """Return the signing secret of a Stripe webhook."""
    if not parse_key(text).startswith("whsec_"):
        raise ValueError(
            "is not a signing secret; copy the webhook's from Stripe's dashboard, it begins with whsec_"
        )
    return text


def check_secret(text: str) -> str:
    """Return a key that is strong enough to protect refunds."""
    if len(text) < KEY_MIN_LENGTH:
        raise ValueError(f"has a key shorter than {KEY_MIN_LENGTH} characters; {HOW_TO_MAKE_ONE}")
    if len(set(text)) < KEY_MIN_DIFFERENT:
        raise ValueError(f"has a key of few different characters; {HOW_TO_MAKE_ONE}")
    return text


def parse_url(text: str) -> str:
    return _parse_url(text, ("http", "https"))


def parse_conductor_url(text: str) -> str:
    return _parse_url(text, ("ws", "http", "https", "wss"))


def _parse_url(text: str, schemes: tuple[str, ...]) -> str:
    """Return an absolute URL with one of `schemes`."""
    problem = f"{text!r} is not a whole address; write one like {schemes[-1]}://shop.com"
    if not text.isprintable() or " " in text:
        raise ValueError(problem)
    try:
        parts = urlsplit(text)
        whole = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as for a single bracket, or a port that is no number
        raise ValueError(problem) from None
    if not whole:
        raise ValueError(problem)
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r} has a ? or a #; remove it and what follows")
    return text


def parse_database_url(text: str) -> str:
    """Return a database URL. Errors do not show it, because it may hold a password."""
    try:
        url = sa.make_url(text)
    except (ValueError, sa.exc.ArgumentError):
        raise ValueError(
            "cannot be read; write postgresql+psycopg://user:password@host:5432/name, with special "
            "characters of the password percent-encoded"
        ) from None
    if url.drivername not in _DRIVERS:
        raise ValueError(
            f"starts with {url.drivername}://; use postgresql+psycopg:// or sqlite:///"
        )
    if url.drivername == "sqlite" and _is_in_memory(url):
        raise ValueError("is in memory, which DBOS cannot share; name a file: sqlite:///name.db")
    return text


def _is_in_memory(url: sa.URL) -> bool:
    name = url.database or ""
    return not name or ":memory:" in name or url.query.get("mode") == "memory"


def parse_seconds(text: str) -> int:
    return parse_whole(text, MOST_SECONDS, "ten years")


def parse_pause(text: str) -> int:
    """Return a number of seconds; 0 means no pause."""
    return 0 if text == "0" else parse_seconds(text)


def parse_days(text: str) -> int:
    return parse_whole(text, MOST_DAYS, "ten years")


def parse_limit(text: str) -> int:
    """Return a whole number; 0 means no limit."""
    return 0 if text == "0" else parse_whole(text, MOST_A_MINUTE)


def parse_whole(text: str, most: int, words: str = "") -> int:
    """Return a whole number from 1 to `most`. `words` describe `most` in the error."""
    if not text.isascii() or not text.isdigit() or not text.strip("0"):
        raise ValueError(f"{text!r} is not a whole number from 1")
    if len(text) > len(str(most)) or int(text) > most:
        named = f"{words} ({most})" if words else str(most)
        raise ValueError(f"{text[:40]!r} is too much; the most is {named}")
    return int(text)
