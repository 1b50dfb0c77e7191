"""Lines such as "On Tuesday Tess wrote:", which programs put above a quote, in any language.

The verb helps, an address and a date tell: languages that we do not know are recognised by those.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mailagent.adapters import quote_words as words
from mailagent.adapters.quote_line import QUOTE_SIGNS, is_groupwise, next_text

ATTRIBUTION_MAX_LINES = 3
ATTRIBUTION_MAX_LENGTH = 400

_ADDRESS = re.compile(r"[<(\[\"]?[^\s<>()\[\]\"]{1,100}@[^\s<>()\[\]\"]{2,200}")
_BRACKETED_ADDRESS = re.compile(
    r"[<(\[](?:mailto:)?[^\s<>()\[\]]{1,100}@[^\s<>()\[\]]{1,200}[>)\]]"
)
_CLOCK = re.compile(r"\b\d{1,2}\s?[:.h時点시]\s?\d{2}\b|\b\d{1,2}\s?[ap]\.?m\b|\d{1,2}[時点시]")
# Wherever a clock is there is one of these, also in a piece that was cut off in the middle of a number.
_NEAR_CLOCK = re.compile(r"\d\s?(?:[:.h時点시]\s?\d\d|[ap]\.?m|[時点시])")
_DATE = re.compile(
    r"\b\d{4}\s?[-/.年년]|\b\d{1,2}[-/.]\s?\d{1,2}[-/.]|\b(?:19|20)\d\d\b|\d{1,2}\s?[月월]"
)
_WROTE = re.compile(
    r"(?<!\w)(?:" + "|".join(re.escape(word) for word in words.WROTE) + r")(?!\w)"
    r"|>wrote\b|" + "|".join(words.WROTE_UNSPACED)
)
_COLON_END = (":", "：", "--")
_START = re.compile(
    r"[-*_\s]{0,10}(?:(?:" + "|".join(words.ON) + r")(?![\w'])|\d|\S{1,12}[.,]\s\d)"
)
_BARE_DATE_LINE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b.{0,200}<[^<>\s]{1,200}@[^<>\s]{1,200}>:?\Z"
)


def attribution_end(lines: Sequence[str], at: int) -> int | None:
    """Return where the attribution that begins on line `at` ends, or None if there is none."""
    if _BARE_DATE_LINE.match(lines[at][:ATTRIBUTION_MAX_LENGTH]) or is_groupwise(lines[at]):
        return at + 1
    joined = ""
    for end in range(at + 1, min(at + ATTRIBUTION_MAX_LINES, len(lines)) + 1):
        if not lines[end - 1]:
            return None
        joined = f"{joined} {lines[end - 1]}".strip()
        if len(joined) > ATTRIBUTION_MAX_LENGTH:
            return None
        if joined.rstrip(" *_").endswith(_COLON_END):
            wraps = end > at + 1
            quote_follows = _quote_follows(lines, end)
            return end if _is_attribution(joined, wraps, quote_follows) else None
    return None


def names_author(line: str) -> bool:
    """Whether a line has an address, or a date with a time of day, as programs write them."""
    text = line[:ATTRIBUTION_MAX_LENGTH]
    return has_address(text) or bool(_CLOCK.search(text) and _DATE.search(text))


def may_name_author(text: str) -> bool:
    """Return whether `names_author` may be true of a piece of a text, at a glance."""
    return "@" in text or bool(_NEAR_CLOCK.search(text))


def has_address(line: str) -> bool:
    """Whether there is a mail address in a line."""
    return "@" in line and bool(_ADDRESS.search(line))


def _quote_follows(lines: Sequence[str], at: int) -> bool:
    following = next_text(lines, at)
    return following < min(len(lines), at + 4) and lines[following].startswith(QUOTE_SIGNS)


def _is_attribution(text: str, wraps: bool, quote_follows: bool) -> bool:
    """Decide about a line that ends in a colon. Without quote signs below it, everything below is
    at stake, so a time of day or an address must show that a program wrote it."""
    address = has_address(text)
    clock, dated = bool(_CLOCK.search(text)), bool(_DATE.search(text))
    wrote = bool(_WROTE.search(text))
    if wraps and not _START.match(text):
        return False
    if wrote and quote_follows:
        return True
    if wrote:
        return bool(_BRACKETED_ADDRESS.search(text)) or (
            clock and dated and bool(_START.match(text))
        )
    return address and (quote_follows or (dated and clock))
