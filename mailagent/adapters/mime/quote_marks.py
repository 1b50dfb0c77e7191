"""Recognises the lines by which mail programs mark that quoted or forwarded text begins.

Every rule reads a bounded piece of text, so that a whole mail takes linear time. `reply_text` decides
what to do at a mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from mailagent.adapters.mime import quote_words as words

MARK_MAX_LENGTH = 400  # longer lines are text
SPLIT_MAX_LENGTH = 2_000
QUOTE_SIGNS = (">", "\uff1e")


class Mark(Enum):
    """What a mark says about the lines after it."""

    ATTRIBUTION = auto()  # "On Tuesday Tess wrote:"
    HEADERS = auto()  # From, Sent, To, Subject of the quoted mail
    ORIGINAL = auto()  # "-----Original Message-----"
    FORWARDED = auto()  # "Begin forwarded message:"
    REPLY_ABOVE = auto()  # "-- reply above this line --", which help desks write


class Found(NamedTuple):
    """A mark on the lines up to, not including, `end`."""

    mark: Mark
    end: int


_DASHES = "[-_=*\u2010-\u2015\u2500\u2501]"
_DASHED = re.compile(rf"{_DASHES}{{2,}}+\s*+(\S.{{1,70}}?)\s*{_DASHES}{{2,}}[:\s]*\Z")
_DASHED_MAX_LENGTH = 160
_RULE = re.compile(rf"{_DASHES}{{4,}}\Z")
_REPLY_ABOVE = re.compile(
    r"[^\w]{0,20}(?:please |bitte |merci de |por favor |type your |write your )*"
    r"(?:reply|write|respond|type|enter|antwort|schreib|répon|écri|respond|escrib|rispo|scriv|antwoord)"
    r"\w*\b[^.!?]{0,60}\b(?:above|oberhalb|über|au-dessus|dessus|encima|arriba|sopra|acima|boven)\b"
    r"[^.!?]{0,10}\b(?:this|the|dieser|diese|cette|esta|questa|deze|denna)\b[^.!?]{0,20}"
    r"\b(?:line|linie|zeile|ligne|línea|linea|riga|linha|lijn|regel)\b"
)
_REPLY_ABOVE_WITHIN = re.compile(
    r"(?<=\S) (?=[-#]{2,9} ?(?:please )?(?:type your )?reply above this line)", re.IGNORECASE
)


def find_mark(lines: Sequence[str], at: int) -> Found | None:
    """Return the mark that begins on line `at` of `lines` (as `plain_line` gives them), or None."""
    line = lines[at]
    if not line or len(line) > MARK_MAX_LENGTH:
        return None
    if is_reply_above(line):
        return Found(Mark.REPLY_ABOVE, at + 1)
    dashed = _dashed(line)
    if is_forwarded_line(line):
        return Found(Mark.FORWARDED, at + 1)
    if dashed and any(stem in dashed[1] for stem in words.ORIGINAL_STEMS):
        return Found(Mark.ORIGINAL, at + 1)
    is_rule = bool(_RULE.match(line))
    if (dashed or is_rule or _announces_original(line)) and (
        end := header_block_end(lines, next_text(lines, at + 1))
    ):
        # If we do not know the words between the dashes, it is safer to take it for a forward.
        return Found(Mark.FORWARDED if dashed and not is_rule else Mark.HEADERS, end)
    if end := header_block_end(lines, at):
        return Found(Mark.HEADERS, end)
    if end := attribution_end(lines, at):
        return Found(Mark.ATTRIBUTION, end)
    return None


_INVISIBLE = re.compile("[\u00ad\u0307\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Arabic, Persian and Hindi programs write dates in digits of their own.
_DIGITS = {zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966) for digit in range(10)}


def plain_line(line: str) -> str:
    """Return a line in the form for the rules: lower case, plain spaces and digits, no invisible characters."""
    plain = " ".join(line.split()).lower()
    return plain if plain.isascii() else _INVISIBLE.sub("", plain).translate(_DIGITS)


def next_text(lines: Sequence[str], at: int) -> int:
    """Return the index of the first line from `at` on that is not empty, or the end."""
    while at < len(lines) and not lines[at]:
        at += 1
    return at


def is_reply_above(line: str) -> bool:
    """Return whether a line is a help desk's "reply above this line", in one of its wordings."""
    return bool(_REPLY_ABOVE.match(line))


def split_line(line: str) -> list[str]:
    """Split a line in two if a program has joined the customer's words and a mark."""
    if len(line) > SPLIT_MAX_LENGTH:
        return [line]
    parts = _REPLY_ABOVE_WITHIN.split(line) if "above" in line.lower() else [line]
    return [*_split_at_attribution(parts[0]), *parts[1:]]


def is_forwarded_line(line: str) -> bool:
    """Return whether a line announces a forwarded mail."""
    dashed = _dashed(line)
    text = dashed[1] if dashed else line if line.endswith((":", "：")) else ""
    return 0 < len(text) <= 70 and any(stem in text for stem in words.FORWARDED_STEMS)


def _announces_original(line: str) -> bool:
    """Return whether a line has only words for "original message", which some programs write without dashes."""
    return line.count(" ") <= 2 and all(
        any(stem in line for stem in stems) for stems in (words.ORIGINAL_STEMS, words.MESSAGE_STEMS)
    )


def _dashed(line: str) -> re.Match[str] | None:
    return _DASHED.match(line) if len(line) <= _DASHED_MAX_LENGTH else None


# --- attributions ---------------------------------------------------------------------------------
# "On Tuesday Tess wrote:", in any language. We recognise it by its verb, or in a language that we do not
# know by an address and a date.

ATTRIBUTION_MAX_LINES = 5

_ADDRESS = re.compile(r"[<(\[\"]?[^\s<>()\[\]\"]{1,100}@[^\s<>()\[\]\"]{2,200}")
_BRACKETED_ADDRESS = re.compile(
    r"[<(\[]\s?(?:mailto:)?[^\s<>()\[\]]{1,100}@[^\s<>()\[\]]{1,200}\s?[>)\]]"
)
_CLOCK = re.compile(
    r"(?<!\d\.)\b\d{1,2}\s?[:.h時点시]\s?\d{2}(?![\da-z]|\.\d)|\b\d{1,2}\s?[ap]\.?m\b|\d{1,2}[時点시]"
)
_DATE = re.compile(
    r"\b\d{4}\s?[-/.年년]|\b\d{1,2}[-/.]\s?\d{1,2}[-/.]|\b(?:19|20)\d\d\b|\d{1,2}\s?[月월]"
)
# A day, a month and a year. Any word may be a month, because no list has all languages.
_YEAR = r"(?:19|20|25)\d\d"  # the last for Thailand
_MONTH = r"[^\W\d][^\s\d]{2,14}"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|º|\.)?"
_FULL_DATE = (
    r"(?:\d{4}\s?[-./年년]\s?\d{1,2}\s?[-./月월]\s?\d{1,2}"
    r"|\d{1,2}\s?[-./]\s?\d{1,2}\s?[-./]\s?\d{2,4}\b"
    rf"|{_DAY}[-\s]?(?:de |d['’])?{_MONTH}(?:\sdel?)?[-\s,]\s?{_YEAR}\b"
    rf"|{_MONTH}\s{_DAY},?\s{_YEAR}\b"
    rf"|{_YEAR}(?:\.|\s?m\.|\(e\)ko)?\s?{_MONTH}\s\d{{1,2}}|{_YEAR}\. g\w{{0,3}}\.?\s{_DAY}\s{_MONTH}"
    rf"|\d{{1,2}}\s(?:thg|tháng)\s(?:\d{{1,2}}|\w+(?:\s\w+)?),?\s(?:năm\s)?{_YEAR}\b)"
)
_HAS_FULL_DATE = re.compile(_FULL_DATE)
_ANY_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_WORD_OR_INITIAL = re.compile(_ANY_WORD.pattern + r"\.?")
_ON = "(?:" + "|".join(words.ON) + r")(?![\w'])"
_START = re.compile(rf"[-*_\s]{{0,10}}(?:{_ON}|\d|\S{{1,12}}[.,]\s\d)")
# "On Tuesday, 3 November 2026", "tir. 3. nov. 2026", "At 10:12 3/11/2026".
_OPENING = rf"{_ON},?\s(?:\d{{1,2}}:\d\d,?\s)?(?:[^\W\d]\S{{0,13}}\s){{0,2}}(?:th \d, )?"
_DATE_FIRST = re.compile(
    rf"[-*_\s]{{0,10}}(?:{_OPENING}|[^\W\d]\S{{0,12}}[.,،]\s|[^\W\d]{{1,3}}\s)?{_FULL_DATE}"
)
_WITHIN = re.compile(rf"(?<=\S)(?:\s|-{{2,3}}\s?)(?={_OPENING}{_FULL_DATE})", re.IGNORECASE)
# "Tess <support@shop.example> hat" before a date: the attribution begins before the date.
_AUTHOR_BEFORE = re.compile(r"@[^\s<>]{1,190}[>)\]],?(?:\s\w+){0,2}\Z")
_COLON_ENDS = (":", "：", "--", ":*", ":_", ":**")
_BRACKETS = (">", ")", "]")
_VERBS = frozenset(words.WROTE)
_ME = frozenset(words.FIRST_PERSON)


def attribution_end(lines: Sequence[str], at: int) -> int | None:
    """Return where the attribution that begins on line `at` ends, or None if there is none."""
    ends = list(_line_ends(lines, at))
    with_colon = next((end for end in ends if lines[end - 1].endswith(_COLON_ENDS)), None)
    if with_colon:
        return with_colon if _is_attribution(lines, at, with_colon) else None
    if not ends or not _DATE_FIRST.match(_joined(lines, at, ends[-1])):
        return None
    return next((end for end in ends if _is_without_colon(lines, at, end)), None)


def has_address(line: str) -> bool:
    """Whether there is a mail address in a line."""
    return "@" in line and bool(_ADDRESS.search(line))


def _split_at_attribution(line: str) -> list[str]:
    """Split a line in two if an attribution with an address follows the customer's words."""
    is_all = not line.endswith(_COLON_ENDS) or _DATE_FIRST.match(plain_line(line))
    behind = "" if is_all else "".join(_WITHIN.split(line, maxsplit=1)[1:])
    if not _BRACKETED_ADDRESS.search(behind) or not (
        _CLOCK.search(behind) or _ends_in_verb(behind.lower())
    ):
        return [line]
    return [line[: len(line) - len(behind)].rstrip(" -"), behind]


def _line_ends(lines: Sequence[str], at: int) -> Iterator[int]:
    """Yield each line behind which an attribution that begins on line `at` may end."""
    length, in_brackets = 0, 0
    for index in range(at, min(at + ATTRIBUTION_MAX_LINES, len(lines))):
        line = lines[index]
        # Polymail writes a blank line before the address, and its brackets on lines of their own.
        if not line and lines[index + 1 : index + 2] != ["<"]:
            return
        if index > at and line.startswith(QUOTE_SIGNS) and not in_brackets:
            return
        in_brackets += line.count("<") - line.count(">")
        length += len(line) + 1
        if length > MARK_MAX_LENGTH:
            return
        yield index + 1


def _joined(lines: Sequence[str], at: int, end: int) -> str:
    return " ".join(line for line in lines[at:end] if line).rstrip(" *_")


def _quote_follows(lines: Sequence[str], at: int) -> bool:
    following = next_text(lines, at)
    return following < min(len(lines), at + 4) and lines[following].startswith(QUOTE_SIGNS)


def _goes_on_behind_its_colon(text: str) -> bool:
    """Return whether text follows the colon of an attribution (behind the verb or a bracket) on its line."""
    for colon in re.finditer("[:：]", text):
        before = text[: colon.start()].rstrip()
        if before.endswith(_BRACKETS) or _ends_in_verb(before):
            return colon.end() < len(text)
    return False


def _has_verb(text: str) -> bool:
    """Return whether a text has the verb of an attribution, in any language that we know."""
    return not _VERBS.isdisjoint(_ANY_WORD.findall(text)) or _has_unspaced_verb(text)


def _has_unspaced_verb(text: str) -> bool:
    return not text.isascii() and any(verb in text for verb in words.WROTE_UNSPACED)


def _ends_in_verb(text: str, within: int = 1) -> bool:
    """Whether the verb is among the last `within` words of a text."""
    end = text[-100:]
    return not _VERBS.isdisjoint(_ANY_WORD.findall(end)[-within:]) or _has_unspaced_verb(end[-12:])


def _is_first_person(text: str) -> bool:
    """Return whether people write about themselves ("I wrote", "schrieb ich"). Programs name the author."""
    said = _WORD_OR_INITIAL.findall(text)
    return any(
        word in _VERBS and not _ME.isdisjoint(said[max(0, at - 2) : at + 2])
        for at, word in enumerate(said)
    )


def _is_attribution(lines: Sequence[str], at: int, end: int) -> bool:
    """Decide about lines that end in a colon. Without quote signs below them, we would drop everything below.
    Then a time of day or an address must show that a program wrote the lines."""
    text = _joined(lines, at, end)
    if (end > at + 1 and not _belongs(lines, at, end)) or _is_first_person(text):
        return False
    if _goes_on_behind_its_colon(text):
        return False
    quote_follows = _quote_follows(lines, end)
    address = has_address(text)
    exact = bool(_CLOCK.search(text) and _DATE.search(text))
    if _has_verb(text):
        started = address or bool(_START.match(text))
        return quote_follows or bool(_BRACKETED_ADDRESS.search(text)) or (exact and started)
    by_program = bool(_BRACKETED_ADDRESS.search(text) or _DATE_FIRST.match(text))
    return address and (quote_follows or (exact and by_program))


def _belongs(lines: Sequence[str], at: int, end: int) -> bool:
    """Return whether line `at` belongs to the attribution that ends some lines below. It may be the customer's
    own last line, without a blank line between, so it must have what the rest of the attribution lacks."""
    line, rest, text = lines[at], _joined(lines, at + 1, end), _joined(lines, at, end)
    if line.endswith("<"):
        return True
    if not line.endswith(_BRACKETS) and _AUTHOR_BEFORE.search(line) and not has_address(rest):
        return True
    if any(_stands_alone(_joined(lines, start, end)) for start in range(at + 1, end)):
        return False
    if _DATE_FIRST.match(text):
        return not _names_author(rest) or bool(_CLOCK.search(text))
    named = _BRACKETED_ADDRESS.search(line) and not has_address(rest)
    return bool(named and _HAS_FULL_DATE.search(text) and _CLOCK.search(text))


def _names_author(text: str) -> bool:
    """Return whether the end of an attribution has both name and address of its author."""
    return has_address(text) and not (text.startswith("<") or _begins_in_brackets(text))


def _begins_in_brackets(text: str) -> bool:
    return text.count(">") > text.count("<")


def _stands_alone(text: str) -> bool:
    """Return whether the end of an attribution is complete without the lines above: it has date and author."""
    if not _HAS_FULL_DATE.search(text) or _begins_in_brackets(text):
        return False
    first = _ANY_WORD.match(text)
    return not (first and first[0] in _VERBS) and (has_address(text) or _has_verb(text))


def _is_without_colon(lines: Sequence[str], at: int, end: int) -> bool:
    """Decide about lines that begin with a date and end in the verb or the author, with no colon."""
    text = _joined(lines, at, end)
    if (end > at + 1 and not _belongs(lines, at, end)) or _is_first_person(text):
        return False
    quote_follows = _quote_follows(lines, end)
    if quote_follows and _CLOCK.search(text) and _ends_in_verb(text, within=6):
        return True
    if not _BRACKETED_ADDRESS.search(text):
        return False
    alone = end >= len(lines) or not lines[end]
    if _ends_in_verb(text):
        return quote_follows or alone
    speaks = _has_verb(text) or not _ME.isdisjoint(_WORD_OR_INITIAL.findall(text))
    return text.endswith(_BRACKETS) and (quote_follows or (alone and not speaks))


# --- header blocks --------------------------------------------------------------------------------
# The From, Sent, To and Subject lines that Outlook and similar programs put above a quotation.

HEADER_BLOCK_MAX_LINES = 12

_LABEL_MAX_LENGTH = 40
_LABEL = re.compile(r"[*_\s]{0,4}([^\W\d_][^:：<>@]{0,28}?)\s?[*_]{0,2}\s?[:：]\s?[*_]{0,2}(.*)\Z")
_BOLD = re.compile(r"[*_]{1,2}\w")  # bold text of HTML; but "* From" is an item of a list
_SUBJECT_OF_ANSWER = re.compile(
    r"[^:：]{1,40}[:：][\s*_]{0,4}(?:re|aw|sv|antw|odp|tr|wg|fwd?|rv)\s?[:：]"
)
_KINDS: dict[str, str] = {
    **dict.fromkeys(words.SUBJECT_LABELS, "subject"),
    **dict.fromkeys(words.TO_LABELS, "to"),
    **dict.fromkeys(words.DATE_LABELS, "date"),
    **dict.fromkeys(words.FROM_LABELS, "from"),
}
_LEAST_KINDS, _ALL_KINDS = 3, 4


def header_block_end(lines: Sequence[str], at: int) -> int | None:
    """Return where the header block that begins on line `at` ends, or None if there is none.

    It has a From line and two of date, recipient and subject, in any order. It also has an address, bold
    labels, the subject of an answer, or all four lines and a time of day: a form or an itinerary that a
    customer typed does not.
    """
    if at >= len(lines) or _label_kind(lines[at]) is None:
        return None
    kinds: list[str] = []
    of_mail = dated = False
    end = at
    for index in range(at, min(at + HEADER_BLOCK_MAX_LINES, len(lines))):
        kind = _label_kind(lines[index])
        if kind == "from" and kind in kinds and len(set(kinds)) >= _LEAST_KINDS:
            break  # the next block, of a mail without text
        if kind is not None:
            kinds.append(kind)
            line = lines[index][:MARK_MAX_LENGTH]
            of_mail = of_mail or _is_of_mail(kind, line)
            dated = dated or (kind == "date" and _says_when(line))
            end = index + 1
        elif index > end:
            break  # one line between may be blank, or the rest of a long list of recipients
    if kinds[0] in kinds[1:] and len(set(kinds[1:])) >= _LEAST_KINDS and "from" in kinds[1:]:
        return None  # it is the customer's own line with such a label, and below it is all text
    of_mail = of_mail or (dated and len(set(kinds)) == _ALL_KINDS)
    return end if "from" in kinds and len(set(kinds)) >= _LEAST_KINDS and of_mail else None


def _is_of_mail(kind: str, line: str) -> bool:
    """Return whether a line with a label has something that people do not type into lists of their own."""
    answers = kind == "subject" and bool(_SUBJECT_OF_ANSWER.match(line))
    return answers or bool(_BOLD.match(line)) or has_address(line)


def _says_when(line: str) -> bool:
    """Return whether a line has a date with a time of day."""
    return bool(_HAS_FULL_DATE.search(line) and _CLOCK.search(line))


def _label_kind(line: str) -> str | None:
    beginning = line[:_LABEL_MAX_LENGTH]
    return _kind_of(beginning) if ":" in beginning or "：" in beginning else None


@lru_cache(maxsize=1_024)
def _kind_of(beginning: str) -> str | None:
    match = _LABEL.match(beginning)
    return _KINDS.get(match[1].strip()) if match else None
