"""Masks personal data and secrets in the text of an error, which we store and show. The rest stays readable."""

from __future__ import annotations

import re
from collections.abc import Callable

from mailagent.domain.mail.redaction import mask_card_numbers, without_keys
from mailagent.domain.refunds.goodwill import hide_code_shapes

# A quotation of this many words is a person's text. A key, a column name or a value has fewer.
WORDS_OF_TEXT = 3
# An unclosed quotation extends to the end of the line. A ' behind a letter is an apostrophe.
_QUOTED = re.compile(
    r"(?<!\w)'(?P<single>.*?)(?:'(?!\w)|$)|\"(?P<double>[^\"]*)(?:\"|$)|(?<==)\((?P<row>[^)]*)(?:\)|$)"
)
_LINK = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,30}://)(?P<login>[^\s/@]*@)?(?P<place>[^\s?#'\"<>]*)"
    r"(?P<query>[?#][^\s'\"<>]*)?",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:sk[-_]|[pr]k_(?:live|test)_|whsec_|shp[a-z]{2}_|c[ks]_(?=[0-9a-f]{20})|SG\.|eyJ)"
    r"[\w*-]{6,}(?:\.[\w*-]+)*"
    r"|(?<=[Bb]earer )\S{8,}|(?<=[Bb]asic )\S{8,}"
)
_NAMED_KEY = re.compile(
    r"\b(?P<name>(?:password|passwd|secret|token|signature|(?:api|access)[ _-]?key)['\"]?\s?[=:]\s?['\"]?)"
    r"(?![\s\['\"])[^\s'\",;&)]+",
    re.IGNORECASE,
)
_LONG_WORD = re.compile(r"[A-Za-z0-9_-]{32,}")
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)
# An address is searched only from the beginning of a word: from each letter, it would take quadratic time.
_BEFORE = r"\s<>\"'(),;:=/"
_ADDRESS = re.compile(
    rf"(?:\"[^\"]*\"|(?<![^{_BEFORE}])(?:[^{_BEFORE}@%]|%(?!40))++)(?:@|%40)[^\s<>\"'(),;:/]+"
)


def mask(line: str) -> str:
    """Return one line of an error's text with mail addresses, keys, tokens, logins, queries of links, card
    numbers, discount codes and quoted sentences masked."""
    for mask_kind in _KINDS:
        line = mask_kind(line)
    return line


def mask_address(email: str) -> str:
    """Return an address by its first letter and host, such as `a…@shop.example`, for people who know it."""
    name, _, host = email.rpartition("@")
    return f"{name[:1]}…@{host}" if name else "[address]"


def _mask_text(found: re.Match[str]) -> str:
    said: str = found[found.lastgroup or 0]
    words = len(said.split())
    return found[0] if words < WORDS_OF_TEXT else found[0].replace(said, f"[{words} words]")


def _mask_link(found: re.Match[str]) -> str:
    login, query = ("[login]@" if found["login"] else ""), ("?[query]" if found["query"] else "")
    return f"{found['scheme']}{login}{found['place']}{query}"


def _mask_long_word(found: re.Match[str]) -> str:
    """Mask a word that looks random. Ids of ours have no capitals, and names have no digits."""
    word = found[0]
    kinds = (str.isdigit, str.islower, str.isupper)
    is_random = all(any(map(kind, word)) for kind in kinds) or _HEX.fullmatch(word)
    return "[key]" if is_random else word


_KINDS: tuple[Callable[[str], str], ...] = (
    lambda line: _QUOTED.sub(_mask_text, line),
    without_keys,
    lambda line: _LINK.sub(_mask_link, line),
    lambda line: _KEY.sub("[key]", line),
    lambda line: _NAMED_KEY.sub(r"\g<name>[key]", line),
    lambda line: _LONG_WORD.sub(_mask_long_word, line),
    # What follows "[login]@" is the host of a link, not of a mail address.
    lambda line: _ADDRESS.sub(
        lambda found: found[0] if "[login]@" in found[0] else "[address]", line
    ),
    mask_card_numbers,
    hide_code_shapes,
)
