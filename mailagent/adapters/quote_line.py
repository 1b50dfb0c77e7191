"""Single lines of a mail as the quote rules read them. No rule about what a line means."""

from __future__ import annotations

import re
from collections.abc import Sequence

QUOTE_SIGNS = (">", "\uff1e")

_INVISIBLE = re.compile("[\u00ad\u0307\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_QUOTE_PREFIX = re.compile(r"(?:\s{0,8}[>\uff1e])+\s?")
_GROUPWISE = re.compile(r">{3} .{3,200}\d.{0,100} >{3}\Z")
# What a program runs together when it makes one line of an HTML mail.
_INLINE = re.compile(
    r"(?<=[.!?…]) (?=on [^<>]{4,120}+<[^<>\s@]{1,64}+@[^<>\s]{1,190}+> wrote:)"
    r"|(?<=\S) (?=[-#]{2,9} ?(?:please )?(?:type your )?reply above this line)",
    re.IGNORECASE,
)


def may_split_inline(text: str) -> bool:
    """Return whether `split_inline` may find anything in a text, at a glance: both of what it looks for have
    one of these words."""
    lower = text.lower()
    return "wrote" in lower or "above" in lower


def split_inline(line: str) -> list[str]:
    """Return a line in two or more where a quote begins in the middle of it."""
    return _INLINE.split(line)


def plain_line(line: str) -> str:
    """Return a line as the rules read it: lower-case, spaces plain, invisible characters gone."""
    plain = " ".join(line.split()).lower()
    return plain if plain.isascii() else _INVISIBLE.sub("", plain)


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
    return not line.startswith(">From ") and not is_groupwise(line)


def next_text(lines: Sequence[str], at: int) -> int:
    """Return the index of the first line from `at` on that is not empty, or the end."""
    while at < len(lines) and not lines[at]:
        at += 1
    return at
