"""Removes what follows a reply and does not belong to it: signatures, and lines that programs add."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from mailagent.adapters.mime.quote_marks import plain_line
from mailagent.adapters.mime.quote_words import DEVICES, LEGAL_STEMS, SENT_FROM, SENT_FROM_ENDINGS

# A longer block below "--" is probably text that the writer separated by dashes.
SIGNATURE_MAX_LINES = 10
SIGNATURE_MAX_LENGTH = 600
SENT_FROM_MAX_LENGTH = 90
ADDITIONS_MAX = 4  # how many additions we remove below a reply

_DELIMITER = re.compile(r"(?:--|—|–|__)[ \t\u00a0]*\Z")
_EXACT_DELIMITER = "-- "  # RFC 3676, section 4.3
_NO_WORDS = re.compile(r"[-_=*~#+\u2010-\u2015\s]{2,}\Z|[\u2013\u2014\u1427]\Z")
_LIST_RULE = re.compile(r"_{30,}\Z")
_LIST_FOOTER = re.compile(r"mailing list|unsubscribe|listinfo")
_SENTENCE = re.compile(r"(?:\S+\s+){4,}\S*\w[.!]+\Z|\S.*[。！]\Z")
_POSTSCRIPT = re.compile(r"(?:p\.?\s?s|p\.?\s?d|n\.?\s?b|з\.?\s?ы)\b", re.IGNORECASE)
_CONTACT = re.compile(r"\w@\w|(?:^|\s)@\w|https?:|www\.|\+?\d[\d\s()/.-]{6,}\d")


def without_signature(lines: Sequence[str]) -> list[str]:
    """Return the lines of a reply without the signature (below "--"), "Sent from my phone" and list footers at
    its end. If the customer goes on writing below a signature, everything is kept."""
    kept = _trimmed(list(lines))
    for _addition in range(ADDITIONS_MAX):
        shorter = _trimmed(kept[: _cut(kept)]) if kept else kept
        if len(shorter) == len(kept):
            break
        kept = shorter
    return kept


def _trimmed(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _cut(lines: list[str]) -> int:
    """Return how many lines remain without the lowest addition."""
    if _NO_WORDS.match(lines[-1].strip()) or _is_sent_from(lines[-1]):
        return len(lines) - 1
    lowest = max(0, len(lines) - 1 - SIGNATURE_MAX_LINES)
    for index in range(len(lines) - 1, lowest - 1, -1):
        below = lines[index + 1 :]
        if _LIST_RULE.match(lines[index].strip()) and _LIST_FOOTER.search(" ".join(below).lower()):
            return index
        if _DELIMITER.match(lines[index].strip()) and _is_signature(lines[index], below):
            return index
    return len(lines)


def _is_signature(delimiter: str, below: list[str]) -> bool:
    text = "\n".join(below)
    if len(text) > SIGNATURE_MAX_LENGTH or "?" in text or any(map(_POSTSCRIPT.match, below)):
        return False
    paragraphs = [
        list(each) for said, each in groupby(below, lambda line: bool(line.strip())) if said
    ]
    first, *later = paragraphs or [[]]
    if delimiter != _EXACT_DELIMITER and any(map(_is_speech, first)):
        return False
    return all(_is_contact(" ".join(paragraph)) for paragraph in later)


def _is_contact(paragraph: str) -> bool:
    """Return whether a paragraph has contact data of its author, or is a legal notice."""
    if _CONTACT.search(paragraph):
        return not _is_speech(paragraph)
    lower = paragraph.lower()
    return any(stem in lower for stem in LEGAL_STEMS) or _is_sent_from(paragraph)


def _is_speech(line: str) -> bool:
    """Return whether a line is a sentence: it ends like one, or has several plain words in a row beside contact
    data."""
    if _SENTENCE.match(line.strip()) or not _CONTACT.search(line):
        return bool(_SENTENCE.match(line.strip()))
    plain = [word.isalpha() and word.islower() for word in line.split()]
    return any(all(three) for three in zip(plain, plain[1:], plain[2:], strict=False))


def _is_sent_from(line: str) -> bool:
    text = plain_line(line[: 2 * SENT_FROM_MAX_LENGTH]).strip("*_- ()[]<>")
    if len(text) > SENT_FROM_MAX_LENGTH:
        return False
    if not (text.startswith(SENT_FROM) or text.endswith(SENT_FROM_ENDINGS)):
        return False
    named = text.partition(", ")[0]
    return any(device in named for device in DEVICES)
