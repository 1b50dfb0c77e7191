"""The From, Sent, To and Subject lines that Outlook and its kin put above a quote, in any order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mailagent.adapters import quote_words as words
from mailagent.adapters.attribution import has_address

HEADER_BLOCK_MAX_LINES = 12

_LABEL_MAX_LENGTH = 40
_LINE_MAX_LENGTH = 400
_LABEL = re.compile(r"[*_\s]{0,4}([^\W\d_][^:：<>@]{0,28}?)\s?[*_]{0,2}\s?[:：]\s?[*_]{0,2}(.*)\Z")
_KINDS: dict[str, str] = {
    **dict.fromkeys((*words.SUBJECT_LABELS,), "subject"),
    **dict.fromkeys((*words.TO_LABELS, *words.TO_PHRASES), "to"),
    **dict.fromkeys((*words.DATE_LABELS, *words.DATE_PHRASES), "date"),
    **dict.fromkeys((*words.FROM_LABELS, *words.FROM_PHRASES), "from"),
}


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
        if kind is not None:
            kinds.add(kind)
            address = address or has_address(lines[index][:_LINE_MAX_LENGTH])
            end = index + 1
        elif index > end:
            break  # one line between may be blank, or the rest of a long list of recipients
    enough = len(kinds) >= 3 and (address or "subject" in kinds)
    return end if "from" in kinds and enough else None


def _label_kind(line: str) -> str | None:
    beginning = line[:_LABEL_MAX_LENGTH]
    if ":" not in beginning and "：" not in beginning:
        return None
    match = _LABEL.match(beginning)
    return _KINDS.get(match[1].strip()) if match else None
