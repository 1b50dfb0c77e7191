"""Payment card numbers in text: masked before anything is stored, shown or sent to a model."""

from __future__ import annotations

import re

# PAN lengths by ISO/IEC 7812-1. A run of more digits is some other number.
_CANDIDATE = re.compile(r"(?<![\w])\d(?:[ \u00a0-]?\d){12,18}+(?![ \u00a0-]?\d)(?!\w)", re.ASCII)
_LAST_KEPT = 4


def mask_card_numbers(text: str) -> str:
    """Return `text` with card numbers masked but for their last four digits.

    A card number has 13 to 19 digits, single spaces or dashes between them, and a sound Luhn sum
    (ISO/IEC 7812-1 annex B); order and tracking numbers of that length mostly fail it.
    """
    return _CANDIDATE.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    digits = [letter for letter in match[0] if letter.isdigit()]
    if not _luhn_is_sound(digits):
        return match[0]
    to_hide = len(digits) - _LAST_KEPT
    out = []
    for letter in match[0]:
        hidden = letter.isdigit() and to_hide > 0
        to_hide -= hidden
        out.append("*" if hidden else letter)
    return "".join(out)


def _luhn_is_sound(digits: list[str]) -> bool:
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
