"""Single lines of a mail as the quote rules read them. No rule about what a line means."""

from __future__ import annotations

import re
from collections.abc import Sequence

QUOTE_SIGNS = (">", "\uff1e")

_INVISIBLE = re.compile("[\u00ad\u0307\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Arabic, Persian and Hindi programs write dates in digits of their own.
_DIGITS = {zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966) for digit in range(10)}
_QUOTE_PREFIX = re.compile(r"(?:\s{0,8}[>\uff1e])+\s?")
_GROUPWISE = re.compile(r">{3} .{3,200}\d.{0,100} >{3}\Z")
# "** urgent **" with other signs: no program writes a quote sign at the end of a line.
_SHOUTED = re.compile(r">{2}.*<{2}\Z")


def plain_line(line: str) -> str:
    """Return a line as the rules read it: lower-case, spaces and digits plain, nothing invisible."""
    plain = " ".join(line.split()).lower()
    return plain if plain.isascii() else _INVISIBLE.sub("", plain).translate(_DIGITS)


def unquoted(line: str) -> str:
    """Return a line without its leading quote signs."""
    match = _QUOTE_PREFIX.match(line)
    return line[match.end() :] if match else line


def is_groupwise(line: str) -> bool:
    """Whether a line is what GroupWise writes above a quote: `>>> Tess 11/3/2026 10:12 AM >>>`."""
    return bool(_GROUPWISE.match(line[:400].rstrip()))


def is_quoted(line: str) -> bool:
    """Whether a line begins with a quote sign; mailbox files write `>From` for a plain `From`."""
    if not line.lstrip(" \t\u00a0\ufeff").startswith(QUOTE_SIGNS):
        return False
    return not (
        line.startswith(">From ") or is_groupwise(line) or _SHOUTED.match(line[:400].strip())
    )


def next_text(lines: Sequence[str], at: int) -> int:
    """Return the index of the first line from `at` on that is not empty, or the end."""
    while at < len(lines) and not lines[at]:
        at += 1
    return at
