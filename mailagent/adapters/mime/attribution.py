"""Lines such as "On Tuesday Tess wrote:", which programs put above a quote, in any language.

The verb helps, an address and a date tell: languages that we do not know are recognised by those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from mailagent.adapters.mime import quote_words as words
from mailagent.adapters.mime.quote_line import QUOTE_SIGNS, is_groupwise, next_text, plain_line

ATTRIBUTION_MAX_LINES = 5
ATTRIBUTION_MAX_LENGTH = 400
WITHIN_MAX_LENGTH = 2_000
WITHIN_MOST = 3  # places in one line that are looked at

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
# A day, a month and a year. A month in words is any word: no list would have them all.
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
_ON = "(?:" + "|".join(words.ON) + r")(?![\w'])"
_START = re.compile(rf"[-*_\s]{{0,10}}(?:{_ON}|\d|\S{{1,12}}[.,]\s\d)")
# "On Tuesday, 3 November 2026", "tir. 3. nov. 2026", "At 10:12 3/11/2026".
_WORD = r"[^\W\d]\S{0,13}"
_OPENING = rf"{_ON},?\s(?:\d{{1,2}}:\d\d,?\s)?(?:{_WORD}\s){{0,2}}(?:th \d, )?"
_DATE_FIRST = re.compile(
    rf"[-*_\s]{{0,10}}(?:{_OPENING}|[^\W\d]\S{{0,12}}[.,،]\s|[^\W\d]{{1,3}}\s)?{_FULL_DATE}"
)
_WEEKDAY = r"[^\W\d]\S{0,3},\s"  # "wt., 3 lis 2026"; with a full stop it may end a sentence
_OPENING_ALONE = re.compile(rf"{_ON}\s{_WORD},\Z")
# Where one may begin behind other words: at a date, or at the next sentence.
_WITHIN = re.compile(
    rf"(?<=\S)(?:\s|-{{2,3}}\s?)(?={_OPENING}{_FULL_DATE})"
    rf"|(?<=[.!?…])\s(?=(?:{_WORD}\s)?{_FULL_DATE}|[^<>.!?…:@]{{1,60}}<[^<>\s@]{{1,64}}@[^<>\s]{{1,190}}>)"
    rf"|(?<=\S)\s(?=(?P<date>(?:{_WEEKDAY})?{_FULL_DATE}))",
    re.IGNORECASE,
)
# "Tess <support@shop.example> hat", and then a date: its attribution began before that.
_AUTHOR_BEFORE = re.compile(r"@[^\s<>]{1,190}[>)\]],?(?:\s\w+){0,2}\Z")
_COLON = re.compile("[:：]")
_NUMBER_BEHIND_CLOCK = re.compile(r"\d:\d\d(?!\d).*\s\d")
_WORD_OR_INITIAL = re.compile(_ANY_WORD.pattern + r"\.?")
_COLON_ENDS = (":", "：", "--", ":*", ":_", ":**")
_BRACKETS = (">", ")", "]")
_VERBS = frozenset(words.WROTE)
_ME = frozenset(words.FIRST_PERSON)


def attribution_end(lines: Sequence[str], at: int) -> int | None:
    """Return where the attribution that begins on line `at` ends, or None if there is none."""
    if is_groupwise(lines[at]):
        return at + 1
    ends = list(_line_ends(lines, at))
    with_colon = next((end for end in ends if lines[end - 1].endswith(_COLON_ENDS)), None)
    if with_colon:
        return with_colon if _is_attribution(lines, at, with_colon) else None
    if not ends or not _DATE_FIRST.match(_joined(lines, at, ends[-1])):
        return None
    return next((end for end in ends if _is_without_colon(lines, at, end)), None)


def attribution_within(lines: Sequence[str], at: int) -> tuple[int, int] | None:
    """Return from where to where an attribution goes that begins within line `at`, behind the
    customer's own words; to the end of that line if it goes on below."""
    line, below = lines[at], lines[at + 1 : at + ATTRIBUTION_MAX_LINES + 2]
    if len(line) > WITHIN_MAX_LENGTH or not (
        "@" in line or line.endswith(_COLON_ENDS) or "@" in "".join(below[:1])
    ):
        return None
    if _DATE_FIRST.match(plain_line(line)):
        return None
    for found in islice(_WITHIN.finditer(line), WITHIN_MOST):
        rest = line[found.end() : found.end() + ATTRIBUTION_MAX_LENGTH]
        if _AUTHOR_BEFORE.search(line[: found.start()][-250:]) and not has_address(rest):
            continue
        if found["date"] and not any(lines[:at]):
            continue  # at the top it is rather "On", in a language that we do not know
        plain = [plain_line(each) for each in (rest, *below)]
        end = attribution_end(plain, 0)
        if end and _is_certain(plain, end) and not _names_author(_joined(plain, 1, end)):
            return found.start(), len(line)
        if (colon := _colon_within(rest)) and _is_sure(plain_line(rest[:colon])):
            return found.start(), found.end() + colon
    return None


def has_address(line: str) -> bool:
    """Whether there is a mail address in a line."""
    return "@" in line and bool(_ADDRESS.search(line))


def says_when(line: str) -> bool:
    """Whether there is a date in a line, with a time of day."""
    return bool(_HAS_FULL_DATE.search(line) and _CLOCK.search(line))


def _line_ends(lines: Sequence[str], at: int) -> Iterator[int]:
    """Yield where an attribution that begins on line `at` may end, line by line."""
    length, in_brackets = 0, 0
    for index in range(at, min(at + ATTRIBUTION_MAX_LINES, len(lines))):
        line = lines[index]
        # Polymail leaves a line blank before the address, and sets its brackets on lines of their own.
        if not line and lines[index + 1 : index + 2] != ["<"]:
            return
        if index > at and line.startswith(QUOTE_SIGNS) and not in_brackets:
            return
        in_brackets += line.count("<") - line.count(">")
        length += len(line) + 1
        if length > ATTRIBUTION_MAX_LENGTH:
            return
        yield index + 1


def _joined(lines: Sequence[str], at: int, end: int) -> str:
    return " ".join(line for line in lines[at:end] if line).rstrip(" *_")


def _quote_follows(lines: Sequence[str], at: int) -> bool:
    following = next_text(lines, at)
    return following < min(len(lines), at + 4) and lines[following].startswith(QUOTE_SIGNS)


def _colon_within(text: str) -> int | None:
    """Return where a text has a colon behind the verb or a bracket, as attributions end."""
    for colon in _COLON.finditer(text):
        before = text[: colon.start()].rstrip()
        if before.endswith(_BRACKETS) or _ends_in_verb(before.lower()):
            return colon.end()
    return None


def _has_verb(text: str) -> bool:
    """Whether a text has the verb of an attribution, in any language that we know."""
    return not _VERBS.isdisjoint(_ANY_WORD.findall(text)) or _has_unspaced_verb(text)


def _has_unspaced_verb(text: str) -> bool:
    return not text.isascii() and any(verb in text for verb in words.WROTE_UNSPACED)


def _ends_in_verb(text: str, within: int = 1) -> bool:
    """Whether the verb is among the last `within` words of a text."""
    end = text[-100:]
    return not _VERBS.isdisjoint(_ANY_WORD.findall(end)[-within:]) or _has_unspaced_verb(end[-12:])


def _is_first_person(text: str) -> bool:
    """Whether people speak of themselves ("I wrote", "schrieb ich"): programs name the author."""
    said = _WORD_OR_INITIAL.findall(text)
    return any(
        word in _VERBS and not _ME.isdisjoint(said[max(0, at - 2) : at + 2])
        for at, word in enumerate(said)
    )


def _is_attribution(lines: Sequence[str], at: int, end: int) -> bool:
    """Decide about lines that end in a colon. Without quote signs below them, everything below is
    at stake, so a time of day or an address must show that a program wrote them."""
    text = _joined(lines, at, end)
    if (end > at + 1 and not _belongs(lines, at, end)) or _is_first_person(text):
        return False
    if _colon_within(text) not in {None, len(text)}:
        return False  # somebody wrote on behind the colon
    quote_follows = _quote_follows(lines, end)
    address = has_address(text)
    exact = bool(_CLOCK.search(text) and _DATE.search(text))
    if _has_verb(text):
        started = address or bool(_START.match(text))
        return quote_follows or bool(_BRACKETED_ADDRESS.search(text)) or (exact and started)
    by_program = bool(_BRACKETED_ADDRESS.search(text) or _DATE_FIRST.match(text))
    return address and (quote_follows or (exact and by_program))


def _belongs(lines: Sequence[str], at: int, end: int) -> bool:
    """Whether line `at` begins the attribution that ends lines below. The customer's own last line
    may stand there, with no blank line between, so it has to bring what the rest lacks."""
    line, rest = lines[at], _joined(lines, at + 1, end)
    if line.endswith("<"):
        return True
    if not line.endswith(_BRACKETS) and _AUTHOR_BEFORE.search(line) and not has_address(rest):
        return True
    if not _OPENING_ALONE.match(line) and any(
        _stands_alone(_joined(lines, start, end)) for start in range(at + 1, end)
    ):
        return False
    text = _joined(lines, at, end)
    clock = bool(_CLOCK.search(text))
    if _DATE_FIRST.match(text):
        return not _names_author(rest) or (clock and not _NUMBER_BEHIND_CLOCK.search(line))
    named = _BRACKETED_ADDRESS.search(line)
    return bool(named and _HAS_FULL_DATE.search(text)) and clock and not has_address(rest)


def _names_author(text: str) -> bool:
    """Whether the end of an attribution has all of its author, name and address."""
    return has_address(text) and not (text.startswith("<") or _begins_in_brackets(text))


def _begins_in_brackets(text: str) -> bool:
    return text.count(">") > text.count("<")


def _stands_alone(text: str) -> bool:
    """Whether the end of an attribution needs no line above it: it says when, and who wrote."""
    if not _HAS_FULL_DATE.search(text) or _begins_in_brackets(text):
        return False
    first = _ANY_WORD.match(text)
    return not (first and first[0] in _VERBS) and (has_address(text) or _has_verb(text))


def _is_sure(text: str) -> bool:
    """Whether a text is what only programs write: a date first, then an address, with a time of day
    or the verb at its end."""
    if not _DATE_FIRST.match(text) or _is_first_person(text):
        return False
    if _CLOCK.search(text):
        return has_address(text)
    return bool(_BRACKETED_ADDRESS.search(text)) and _ends_in_verb(text)


def _is_certain(lines: Sequence[str], end: int) -> bool:
    """Whether an attribution behind other words is one: people too write dates into sentences."""
    text = _joined(lines, 0, end)
    by_program = _quote_follows(lines, end) or bool(_BRACKETED_ADDRESS.search(text))
    return by_program and bool(_CLOCK.search(text))


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
