"""What the values of settings may be. A parser raises ValueError, whose text says what to write; with several
arguments, each is a problem."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

import sqlalchemy as sa
from pydantic import PlainValidator

from mailagent.domain.knowledge import Knowledge
from mailagent.domain.mail.authentication import ascii_domain, normalise_address
from mailagent.domain.operations.model_cost import parse_amount
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.text import is_one_line

MOST_DAYS = 3650
MOST_SECONDS = MOST_DAYS * 24 * 3600
MOST_CONVERSATIONS = 10_000
MOST_A_MINUTE = 1_000_000_000
MOST_MAILS_AN_HOUR = 100_000_000
KEY_MIN_LENGTH = 32
KEY_MIN_DIFFERENT = 8
HOW_TO_MAKE_ONE = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(48))"'

_DRIVERS = ("sqlite", "postgresql+psycopg")

T = TypeVar("T")


def among(*names: T) -> PlainValidator:
    def parse(text: str) -> T:
        if text not in names:
            raise ValueError(f"{text!r} is not known; use one of {', '.join(map(str, names))}")
        return names[[str(name) for name in names].index(text)]

    return PlainValidator(parse)


def list_of(*parsers: Callable[[str], str]) -> PlainValidator:
    def parse(text: str) -> tuple[str, ...]:
        found, problems = [], []
        for part in filter(None, map(str.strip, text.split(","))):
            try:
                found.append(reduce(lambda value, parser: parser(value), parsers, part))
            except ValueError as problem:
                problems.append(str(problem))
        if problems:
            raise ValueError(*problems)
        return tuple(found)

    return PlainValidator(parse)


def known(find: Callable[[str], object]) -> PlainValidator:
    """Return the validator of a provider's name. `find` raises ValueError for an unknown one."""

    def parse(text: str) -> str:
        find(text)
        return text

    return PlainValidator(parse)


def whole(most: int, words: str = "", *, zero: bool = False) -> PlainValidator:
    """Return the validator of a number from 1 to `most`; `zero`: or 0. `words` describe `most` in errors."""

    def parse(text: str) -> int:
        if zero and text == "0":
            return 0
        if not text.isascii() or not text.isdigit() or not text.strip("0"):
            raise ValueError(f"{text!r} is not a whole number from 1")
        if len(text) > len(str(most)) or int(text) > most:
            named = f"{words} ({most})" if words else str(most)
            raise ValueError(f"{text[:40]!r} is too much; the most is {named}")
        return int(text)

    return PlainValidator(parse)


def url(*schemes: str) -> PlainValidator:
    """Return the validator of an absolute URL with one of `schemes`."""

    def parse(text: str) -> str:
        problem = f"{text!r} is not a whole address; write one like {schemes[-1]}://shop.com"
        if not text.isprintable() or " " in text:
            raise ValueError(problem)
        try:
            parts = urlsplit(text)
            is_whole = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:  # such as for a single bracket, or a port that is no number
            raise ValueError(problem) from None
        if not is_whole:
            raise ValueError(problem)
        if parts.query or parts.fragment:
            raise ValueError(f"{text!r} has a ? or a #; remove it and what follows")
        return text

    return PlainValidator(parse)


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


def check_public_key(text: str) -> str:
    from mailagent.adapters.sendgrid.signature import parse_public_key

    parse_public_key(text)
    return text


def parse_beat_file(text: str) -> Path:
    path = Path(text).absolute()
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}; create it")
    return path


def parse_mail_templates(text: str) -> Path:
    """Return the shop's template folder. Renders every mail once to find errors."""
    from mailagent.adapters.templates import template_check

    folder = Path(text).absolute()
    problems = template_check.find_problems(folder)
    if problems:
        raise ValueError(*problems)
    return folder


def parse_policy(text: str) -> Policy:
    from mailagent.adapters.policy_file import PolicyFileProblem, load_policy

    try:
        return load_policy(Path(text))
    except PolicyFileProblem as problem:
        raise ValueError(*problem.problems) from None


def parse_knowledge(text: str) -> Knowledge:
    from mailagent.adapters.knowledge import read_knowledge

    return read_knowledge(Path(text))


def parse_budget(text: str) -> Decimal | Literal["none"]:
    return "none" if text == "none" else parse_amount(text)


def parse_prompt(text: str) -> str:
    """Return the instructions in a file. Raises ValueError."""
    try:
        prompt = Path(text).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{text} cannot be read: {problem}") from None
    if not prompt.strip():
        raise ValueError(
            f"{text} is empty; write the instructions into it, or leave the setting out"
        )
    return prompt


Line = Annotated[str, PlainValidator(parse_line)]
Key = Annotated[str, PlainValidator(parse_key)]
Keys = Annotated[tuple[str, ...], list_of(parse_key)]
WebhookSecrets = Annotated[tuple[str, ...], list_of(parse_webhook_secret)]
Url = Annotated[str, url("http", "https")]
Seconds = Annotated[int, whole(MOST_SECONDS, "ten years")]
Pause = Annotated[int, whole(MOST_SECONDS, "ten years", zero=True)]
Days = Annotated[int, whole(MOST_DAYS, "ten years")]
Limit = Annotated[int, whole(MOST_A_MINUTE, zero=True)]
Texts = Annotated[tuple[str, ...], list_of()]
Addresses = Annotated[tuple[str, ...], list_of(parse_address)]
PublicKeys = Annotated[tuple[str, ...], list_of(check_public_key)]
# Always checked for strength: with the orders token, anyone can create orders and have them refunded.
BearerTokens = Annotated[tuple[str, ...], list_of(check_secret, parse_key)]
