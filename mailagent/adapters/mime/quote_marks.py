"""How mail programs mark where quoted or forwarded text begins: recognised line by line.

Every rule looks at a bounded piece of text, so a whole mail is read in linear time. What follows
from a mark is decided in `reply_text`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from mailagent.adapters.mime import quote_words as words
from mailagent.adapters.mime.attribution import attribution_end
from mailagent.adapters.mime.header_block import header_block_end
from mailagent.adapters.mime.quote_line import next_text

MARK_MAX_LENGTH = 400  # longer lines are text
SPLIT_MAX_LENGTH = 2_000
_REPLY_ABOVE_MIN_LENGTH = 12
_DASHED_MAX_LENGTH = 160


class Mark(Enum):
    """What a mark says about the lines after it."""

    ATTRIBUTION = auto()  # "On Tuesday Tess wrote:"
    HEADERS = auto()  # From, Sent, To, Subject of the quoted mail
    ORIGINAL = auto()  # "-----Original Message-----"
    FORWARDED = auto()  # "Begin forwarded message:"
    REPLY_ABOVE = auto()  # "-- reply above this line --", which help desks write


@dataclass(frozen=True, slots=True)
class Found:
    """A mark on the lines from `start` up to, not including, `end`."""

    mark: Mark
    start: int
    end: int


_DASHES = "[-_=*\u2010-\u2015\u2500\u2501]"
_DASHED = re.compile(rf"{_DASHES}{{2,}}+\s*+(\S.{{1,70}}?)\s*{_DASHES}{{2,}}[:\s]*\Z")
_RULE = re.compile(rf"{_DASHES}{{4,}}\Z")
_REPLY_ABOVE_WITHIN = re.compile(
    r"(?<=\S) (?=[-#]{2,9} ?(?:please )?(?:type your )?reply above this line)", re.IGNORECASE
)
_REPLY_ABOVE = re.compile(
    r"[^\w]{0,20}(?:please |bitte |merci de |por favor |type your |write your )*"
    r"(?:reply|write|respond|type|enter|antwort|schreib|répon|écri|respond|escrib|rispo|scriv|antwoord)"
    r"\w*\b[^.!?]{0,60}\b(?:above|oberhalb|über|au-dessus|dessus|encima|arriba|sopra|acima|boven)\b"
    r"[^.!?]{0,10}\b(?:this|the|dieser|diese|cette|esta|questa|deze|denna)\b[^.!?]{0,20}"
    r"\b(?:line|linie|zeile|ligne|línea|linea|riga|linha|lijn|regel)\b"
)


def find_mark(lines: Sequence[str], at: int) -> Found | None:
    """Return the mark that begins on line `at` of `lines` (as `plain_line` gives them), or None."""
    line = lines[at]
    if not line or len(line) > MARK_MAX_LENGTH:
        return None
    if is_reply_above(line):
        return Found(Mark.REPLY_ABOVE, at, at + 1)
    dashed = _dashed(line)
    if _announces_forward(line, dashed):
        return Found(Mark.FORWARDED, at, at + 1)
    if dashed and any(stem in dashed[1] for stem in words.ORIGINAL_STEMS):
        return Found(Mark.ORIGINAL, at, at + 1)
    announces = bool(dashed) or _announces_original(line)
    if (announces or _RULE.match(line)) and (
        end := header_block_end(lines, next_text(lines, at + 1))
    ):
        # Words between the dashes that we do not know are the safer a forward.
        return Found(Mark.FORWARDED if dashed and not _RULE.match(line) else Mark.HEADERS, at, end)
    if end := header_block_end(lines, at):
        return Found(Mark.HEADERS, at, end)
    if end := attribution_end(lines, at):
        return Found(Mark.ATTRIBUTION, at, end)
    return None


def is_reply_above(line: str) -> bool:
    """Whether a line is a help desk's "reply above this line", in its many wordings."""
    return len(line) >= _REPLY_ABOVE_MIN_LENGTH and bool(_REPLY_ABOVE.match(line))


def split_reply_above(line: str) -> list[str]:
    """Return a line in two where a program ran the customer's words and such a line together."""
    if len(line) > SPLIT_MAX_LENGTH or "above" not in line.lower():
        return [line]
    return _REPLY_ABOVE_WITHIN.split(line)


def is_forwarded_line(line: str) -> bool:
    """Whether a line announces a forwarded mail."""
    return _announces_forward(line, _dashed(line))


def _announces_forward(line: str, dashed: re.Match[str] | None) -> bool:
    text = dashed[1] if dashed else line if line.endswith((":", "：")) else ""
    return 0 < len(text) <= 70 and any(stem in text for stem in words.FORWARDED_STEMS)


def _announces_original(line: str) -> bool:
    """Whether a line has words for "original message" and no more, as some write it without dashes."""
    return line.count(" ") <= 2 and all(
        any(stem in line for stem in stems) for stems in (words.ORIGINAL_STEMS, words.MESSAGE_STEMS)
    )


def _dashed(line: str) -> re.Match[str] | None:
    return _DASHED.match(line) if len(line) <= _DASHED_MAX_LENGTH else None
