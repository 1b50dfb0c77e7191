"""How mail programs mark where quoted or forwarded text begins: recognised line by line.

Every rule looks at a bounded piece of text, so a whole mail is read in linear time. What follows
from a mark is decided in `reply_text`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from mailagent.adapters import quote_words as words

ATTRIBUTION_MAX_LINES = 3
ATTRIBUTION_MAX_LENGTH = 400
HEADER_BLOCK_MAX_LINES = 12
_LABEL_MAX_LENGTH = 30


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


_INVISIBLE = re.compile("[\u00ad\u0307\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_QUOTE_PREFIX = re.compile(r"(?:\s{0,8}>)+\s?")
_ADDRESS = re.compile(r"[<(\[\"]?[^\s<>()\[\]\"]{1,100}@[^\s<>()\[\]\"]{2,200}")
_BRACKETED_ADDRESS = re.compile(
    r"[<(\[](?:mailto:)?[^\s<>()\[\]]{1,100}@[^\s<>()\[\]]{1,200}[>)\]]"
)
_CLOCK = re.compile(r"\b\d{1,2}\s?[:.h時点시]\s?\d{2}\b|\b\d{1,2}\s?[ap]\.?m\b|\d{1,2}[時点시]")
_DATE = re.compile(
    r"\b\d{4}\s?[-/.年년]|\b\d{1,2}[-/.]\s?\d{1,2}[-/.]|\b(?:19|20)\d\d\b|\d{1,2}\s?[月월]"
)
_WROTE = re.compile(
    r"(?<!\w)(?:" + "|".join(re.escape(word) for word in words.WROTE) + r")(?!\w)"
    r"|>wrote\b|" + "|".join(words.WROTE_UNSPACED)
)
_COLON_END = re.compile(r"(?:[:：]|-{2,})[\s*_]*\Z")
_START = re.compile(
    r"[-*_\s]{0,10}(?:(?:" + "|".join(words.ON) + r")(?![\w'])|\d|\S{1,12}[.,]\s\d)"
)
_BARE_DATE_LINE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b.{0,200}<[^<>\s]{1,200}@[^<>\s]{1,200}>:?\Z"
)
_GROUPWISE = re.compile(r">{3} .{3,200}\d.{0,100} >{3}\Z")
_DASHED = re.compile(r"[-_=*—–]{2,}\s*(\S.{1,70}?)\s*[-_=*—–]{2,}[:\s]*\Z")
_RULE = re.compile(r"[-_=*—–]{10,}\Z")
_LABEL = re.compile(r"[*_\s]{0,4}([^\W\d_][^:：<>@]{0,28}?)\s?[*_]{0,2}\s?[:：]\s?[*_]{0,2}(.*)\Z")
_REPLY_ABOVE = re.compile(
    r"[^\w]{0,20}(?:please |bitte |merci de |por favor |type your |write your )*"
    r"(?:reply|write|respond|type|enter|antwort|schreib|répon|écri|respond|escrib|rispo|scriv|antwoord)"
    r"\w*\b[^.!?]{0,60}\b(?:above|oberhalb|über|au-dessus|dessus|encima|arriba|sopra|acima|boven)\b"
    r"[^.!?]{0,10}\b(?:this|the|dieser|diese|cette|esta|questa|deze|denna)\b[^.!?]{0,20}"
    r"\b(?:line|linie|zeile|ligne|línea|linea|riga|linha|lijn|regel)\b"
)
# What a program runs together when it makes one line of an HTML mail.
_INLINE = re.compile(
    r"(?<=[.!?…]) (?=on [^:<>]{0,40}\d[^<>]{0,80}<[^<>\s]{1,100}@[^<>\s]{1,100}> wrote:)"
    r"|(?<=\S) (?=[-#]{2,} ?(?:please )?(?:type your )?reply above this line)",
    re.IGNORECASE,
)

_KINDS: dict[str, str] = {
    **dict.fromkeys((*words.SUBJECT_LABELS,), "subject"),
    **dict.fromkeys((*words.TO_LABELS, *words.TO_PHRASES), "to"),
    **dict.fromkeys((*words.DATE_LABELS, *words.DATE_PHRASES), "date"),
    **dict.fromkeys((*words.FROM_LABELS, *words.FROM_PHRASES), "from"),
}


def split_inline(line: str) -> list[str]:
    """Return a line in two or more where a quote begins in the middle of it."""
    return _INLINE.split(line)


def plain_line(line: str) -> str:
    """Return a line as the rules read it: lower-case, spaces plain, invisible characters gone."""
    return _INVISIBLE.sub("", " ".join(line.split()).lower())


def unquoted(line: str) -> str:
    """Return a line without its leading quote signs."""
    match = _QUOTE_PREFIX.match(line)
    return line[match.end() :] if match else line


def is_quoted(line: str) -> bool:
    """Whether a line begins with a quote sign; mailbox files write `>From` for a plain `From`, and
    GroupWise begins its attributions so."""
    if line.startswith(">From ") or _GROUPWISE.match(line.rstrip()):
        return False
    return line.lstrip(" \t\u00a0\ufeff")[:1] == ">"


def find_mark(lines: Sequence[str], at: int) -> Found | None:
    """Return the mark that begins on line `at` of `lines` (as `plain_line` gives them), or None."""
    line = lines[at]
    if not line:
        return None
    if is_reply_above(line):
        return Found(Mark.REPLY_ABOVE, at, at + 1)
    if is_forwarded_line(line):
        return Found(Mark.FORWARDED, at, at + 1)
    if _is_original_line(line):
        return Found(Mark.ORIGINAL, at, at + 1)
    if _is_rule(line) and (end := header_block_end(lines, _next_text(lines, at + 1))):
        # Words between the dashes that we do not know are the safer a forward.
        return Found(Mark.HEADERS if _RULE.match(line) else Mark.FORWARDED, at, end)
    if end := header_block_end(lines, at):
        return Found(Mark.HEADERS, at, end)
    if end := _attribution_end(lines, at):
        return Found(Mark.ATTRIBUTION, at, end)
    return None


def is_reply_above(line: str) -> bool:
    """Whether a line is a help desk's "reply above this line", in its many wordings."""
    return bool(_REPLY_ABOVE.match(line))


def is_forwarded_line(line: str) -> bool:
    """Whether a line announces a forwarded mail."""
    dashed = _DASHED.match(line)
    text = dashed[1] if dashed else line if line.endswith((":", "：")) else ""
    return len(text) <= 70 and any(stem in text for stem in words.FORWARDED_STEMS)


def _is_original_line(line: str) -> bool:
    dashed = _DASHED.match(line)
    return bool(dashed and any(stem in dashed[1] for stem in words.ORIGINAL_STEMS))


def _is_rule(line: str) -> bool:
    return bool(_RULE.match(line) or _DASHED.match(line))


def _next_text(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and not lines[at]:
        at += 1
    return at


def header_block_end(lines: Sequence[str], at: int) -> int | None:
    """Return where the header block that begins on line `at` ends, or None if there is none.

    A From line and two more of date, recipient and subject, in any order; with an address or a
    subject, which tell it from a form or a journey that somebody wrote down.
    """
    kinds: set[str] = set()
    address = False
    end = at
    for index in range(at, min(at + HEADER_BLOCK_MAX_LINES, len(lines))):
        kind = _label_kind(lines[index])
        if kind is None:
            # A value may be wrapped: long recipient lists are.
            if index == at or not lines[index] or index > end + 1:
                break
            continue
        kinds.add(kind)
        address = address or bool(_ADDRESS.search(lines[index]))
        end = index + 1
    enough = len(kinds) >= 3 and (address or "subject" in kinds)
    return end if "from" in kinds and enough else None


def _label_kind(line: str) -> str | None:
    match = _LABEL.match(line[: _LABEL_MAX_LENGTH + 10])
    return _KINDS.get(match[1].strip()) if match else None


def _attribution_end(lines: Sequence[str], at: int) -> int | None:
    if _BARE_DATE_LINE.match(lines[at][:ATTRIBUTION_MAX_LENGTH]) or _GROUPWISE.match(lines[at]):
        return at + 1
    joined = ""
    for end in range(at + 1, min(at + ATTRIBUTION_MAX_LINES, len(lines)) + 1):
        if not lines[end - 1]:
            return None
        joined = f"{joined} {lines[end - 1]}".strip()
        if len(joined) > ATTRIBUTION_MAX_LENGTH:
            return None
        if _COLON_END.search(joined):
            wraps = end > at + 1
            quote_follows = _quote_follows(lines, end)
            return end if _is_attribution(joined, wraps, quote_follows) else None
    return None


def _quote_follows(lines: Sequence[str], at: int) -> bool:
    following = _next_text(lines, at)
    return following < len(lines) and following <= at + 3 and lines[following].startswith(">")


def _is_attribution(text: str, wraps: bool, quote_follows: bool) -> bool:
    """Decide about a line that ends in a colon. Without quote signs below it, everything below is
    at stake, so a time of day or an address must show that a program wrote it."""
    address = bool(_ADDRESS.search(text))
    clock, dated = bool(_CLOCK.search(text)), bool(_DATE.search(text))
    wrote = bool(_WROTE.search(text))
    if wraps and not _START.match(text):
        return False
    if wrote and quote_follows:
        return address or clock or dated or bool(_START.match(text))
    if wrote:
        return bool(_BRACKETED_ADDRESS.search(text)) or (
            clock and dated and bool(_START.match(text))
        )
    return address and dated and (clock or quote_follows)
