"""Payment card numbers in text: masked before anything is stored, shown or sent to a model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Lengths of card numbers, ISO/IEC 7812-1. A group of more digits is some other number.
_LENGTHS = range(13, 20)
_LAST_KEPT = 4

_SEPARATORS = (
    "\u00a0\u2000-\u200a\u202f\u205f\u3000 \u00ad\u200b-\u200f\u2060\ufeff\u2010\u2011\u2013-"
)
_RUN = re.compile(rf"[0-9]++(?:[{_SEPARATORS}][0-9]++)*+")
_GROUP = re.compile(r"[0-9]+")
# How cards are embossed: 4-4-4-4 and its longer and shorter sisters, 4-6-5 and 4-6-4.
_EMBOSSED = re.compile(r"444[1-4][1-3]?|46[45]")
_GROUPS = range(3, 6)
_FIRST_DIGITS = "23456"  # of the networks that shops take

# What else people, programs and the cells of tables put between groups. It stands in lists, dates
# and amounts as well: here a number must also begin and be grouped as a network's cards are.
_MARK = rf"[\t.,/_*|>\u2012\u2014\u2015\u2212{_SEPARATORS}]"
_BETWEEN = rf"(?:{_MARK}{{1,3}}|{_MARK}{{0,2}}\r?\n{_MARK}{{0,2}})"
# Seen from each group, nothing is taken: cards may begin within what looks like another one.
_SPACED_OUT = re.compile(
    rf"""(?<![0-9])(?=(
        (?:[4-6][0-9]|2[2-7]|35)[0-9]{{2}}(?:{_BETWEEN}[0-9]{{4}}){{3}}
        |3[47][0-9]{{2}}{_BETWEEN}[0-9]{{6}}{_BETWEEN}[0-9]{{5}}
        |3[0689][0-9]{{2}}{_BETWEEN}[0-9]{{6}}{_BETWEEN}[0-9]{{4}}
    )(?![0-9]))""",
    re.VERBOSE,
)
_DIGITS_SPACED_OUT = re.compile(rf"(?<![0-9])[0-9](?:{_BETWEEN}[0-9](?![0-9]))++")
_DIGIT = re.compile(r"\d")  # of any script
_FOREIGN_DIGITS = re.compile(r"[^\D0-9]+")
_NO_DIGITS = bytes(set(range(128)) - set(b"0123456789"))
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # and the digits of that added up


def mask_card_numbers(text: str) -> str:
    """Return `text`, as long as before, with card numbers masked but for their last four digits.

    A card number has 13 to 19 digits of any script and a sound Luhn sum (ISO/IEC 7812-1 annex B).
    With single spaces or dashes between them any grouping will do; with up to three other signs or
    a line break, only that of a network's cards. A customer may write the expiry date or an order
    number right beside it: so within a longer run of numbers, groups that look embossed are tried.
    """
    if len(_DIGIT.findall(text)) < _LENGTHS.start:
        return text
    out = list(text)
    rest = _FOREIGN_DIGITS.sub(_folded, text)
    for find in (_close_spans, _spaced_out_spans):
        left = list(rest)
        for start, end in find(rest):
            digits = [at for at in range(start, end) if rest[at].isdecimal()]
            for at in digits[:-_LAST_KEPT]:
                out[at] = "*"
            left[start:end] = "x" * (end - start)
        rest = "".join(left)
    return "".join(out)


def _folded(match: re.Match[str]) -> str:
    return "".join(str(unicodedata.digit(digit)) for digit in match[0])


def _close_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _RUN.finditer(text):
        at = match.start()
        for start, end in _card_spans(match[0]):
            if match.start() + start >= at:
                at = match.start() + end
                yield match.start() + start, at


def _card_spans(run: str) -> Iterator[tuple[int, int]]:
    if len(run) < _LENGTHS.start:
        return
    if _is_card(run):
        yield 0, len(run)
        return
    groups = [group.span() for group in _GROUP.finditer(run)]
    sizes = "".join(str(end - start) if end - start < 10 else "x" for start, end in groups)
    for first, (start, group_end) in enumerate(groups):
        if group_end - start in _LENGTHS and _is_card(run[start:group_end]):
            yield start, group_end
        elif run[start] in _FIRST_DIGITS:
            for last in (first + count for count in _GROUPS):
                end = groups[min(last, len(groups)) - 1][1]
                if _EMBOSSED.fullmatch(sizes, first, last) and _is_card(run[start:end]):
                    yield start, end
                    break


def _spaced_out_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for match in _SPACED_OUT.finditer(text):
        start, end = match.span(1)
        if start >= at and _is_card(match[1]):
            at = end
            yield start, end
    for match in _DIGITS_SPACED_OUT.finditer(text):
        if match[0][0] in _FIRST_DIGITS and _is_card(match[0]):
            yield match.span()


def _is_card(text: str) -> bool:
    digits = text.encode("ascii", "ignore").translate(None, _NO_DIGITS)
    if len(digits) not in _LENGTHS:
        return False
    total = sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))
    return (total - ord("0") * len(digits)) % 10 == 0
