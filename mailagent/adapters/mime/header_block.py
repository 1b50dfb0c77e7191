"""The From, Sent, To and Subject lines that Outlook and its kin put above a quote, in any order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from mailagent.adapters.mime import quote_words as words
from mailagent.adapters.mime.attribution import has_address, says_when

HEADER_BLOCK_MAX_LINES = 12

_LABEL_MAX_LENGTH = 40
_LINE_MAX_LENGTH = 400
_LABEL = re.compile(r"[*_\s]{0,4}([^\W\d_][^:：<>@]{0,28}?)\s?[*_]{0,2}\s?[:：]\s?[*_]{0,2}(.*)\Z")
_BOLD = re.compile(r"[*_]{1,2}\w")  # HTML as text; "* From" is an item of a list
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

    A From line and two more of date, recipient and subject, in any order; with an address, bold labels,
    the subject of an answer, or all four and a time of day, which tell it from a form or an itinerary
    that somebody wrote down.
    """
    if at >= len(lines):
        return None
    if _label_kind(lines[at]) is None:
        return at + 4 if _has_the_form(lines[at : at + 4]) else None
    kinds: list[str] = []
    of_mail = dated = False
    end = at
    for index in range(at, min(at + HEADER_BLOCK_MAX_LINES, len(lines))):
        kind = _label_kind(lines[index])
        if kind == "from" and kind in kinds and len(set(kinds)) >= _LEAST_KINDS:
            break  # the next block, of a mail without text
        if kind is not None:
            kinds.append(kind)
            line = lines[index][:_LINE_MAX_LENGTH]
            of_mail = of_mail or _is_of_mail(kind, line)
            dated = dated or (kind == "date" and says_when(line))
            end = index + 1
        elif index > end:
            break  # one line between may be blank, or the rest of a long list of recipients
    if kinds[0] in kinds[1:] and len(set(kinds[1:])) >= _LEAST_KINDS and "from" in kinds[1:]:
        return None  # the customer's own line, which has such a label too; below it is all there is
    of_mail = of_mail or (dated and len(set(kinds)) == _ALL_KINDS)
    return end if "from" in kinds and len(set(kinds)) >= _LEAST_KINDS and of_mail else None


def _is_of_mail(kind: str, line: str) -> bool:
    """Whether a line with a label has what people do not type into a list of their own."""
    answers = kind == "subject" and bool(_SUBJECT_OF_ANSWER.match(line))
    return answers or bool(_BOLD.match(line)) or has_address(line)


def _has_the_form(block: Sequence[str]) -> bool:
    """Whether four lines are such a block in a language that we do not know: each has a label, the
    first an address, the second a date with a time of day, the third an address again. Of languages
    written in ASCII we know the labels: there it is a form that somebody filled in."""
    if (
        len(block) < 4
        or block[0].partition(":")[0].isascii()
        or not (has_address(block[0]) and has_address(block[2]))
    ):
        return False
    return all(map(_LABEL.match, block)) and says_when(block[1])


@lru_cache(maxsize=1_024)
def _kind_of(beginning: str) -> str | None:
    match = _LABEL.match(beginning)
    return _KINDS.get(match[1].strip()) if match else None


def _label_kind(line: str) -> str | None:
    beginning = line[:_LABEL_MAX_LENGTH]
    if ":" not in beginning and "：" not in beginning:
        return None
    return _kind_of(beginning)
