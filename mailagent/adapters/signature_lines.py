"""What stands below a reply and is no part of it: signatures and the lines that programs add."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mailagent.adapters.quote_line import plain_line
from mailagent.adapters.quote_words import DEVICES, SENT_FROM, SENT_FROM_ENDINGS

# A longer block below "--" is more likely text that somebody set off with dashes.
SIGNATURE_MAX_LINES = 10
SIGNATURE_MAX_LENGTH = 600
SENT_FROM_MAX_LENGTH = 90
ADDITIONS_MAX = 4  # one after the other, below a reply

_DELIMITER = re.compile(r"(?:--|—|–|__)[ \t\u00a0]*\Z")
_LIST_RULE = re.compile(r"_{30,}\Z")
_LIST_FOOTER = re.compile(r"mailing list|unsubscribe|listinfo")


def without_signature(lines: Sequence[str]) -> list[str]:
    """Return the lines of a reply without a delimited signature, "Sent from my phone" and list
    footers at their end. Never returns nothing for something."""
    kept = _trimmed(list(lines))
    for _addition in range(ADDITIONS_MAX):
        shorter = _trimmed(kept[: _cut(kept)]) if kept else kept
        if not shorter or len(shorter) == len(kept):
            break
        kept = shorter
    return kept


def _trimmed(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _cut(lines: list[str]) -> int:
    """Return how many lines stay after taking off the lowest addition."""
    if _is_sent_from(lines[-1]):
        return len(lines) - 1
    lowest = max(0, len(lines) - 1 - SIGNATURE_MAX_LINES)
    for index in range(len(lines) - 1, lowest - 1, -1):
        below = lines[index + 1 :]
        if _LIST_RULE.match(lines[index].strip()) and _LIST_FOOTER.search(" ".join(below).lower()):
            return index
        if _DELIMITER.match(lines[index].strip()) and _is_signature(below):
            return index
    return len(lines)


def _is_signature(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return len(text) <= SIGNATURE_MAX_LENGTH and "?" not in text


def _is_sent_from(line: str) -> bool:
    text = plain_line(line).strip("*_- ")
    named = text.partition(", ")[0]
    if len(text) > SENT_FROM_MAX_LENGTH or not any(device in named for device in DEVICES):
        return False
    return text.startswith(SENT_FROM) or text.endswith(SENT_FROM_ENDINGS)
