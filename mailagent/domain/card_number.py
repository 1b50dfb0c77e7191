"""Payment card numbers in text: masked before anything is stored, shown or sent to a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Lengths of card numbers, ISO/IEC 7812-1. A group of more digits is some other number.
_LENGTHS = range(13, 20)
_LAST_KEPT = 4

_SEPARATORS = " \u00a0\u202f\u2013-"
_RUN = re.compile(rf"[0-9]++(?:[{_SEPARATORS}][0-9]++)*+")
_GROUP = re.compile(r"[0-9]+")
# How cards are embossed: 4-4-4-4 and its longer and shorter sisters, 4-6-5 and 4-6-4.
_EMBOSSED = re.compile(r"4,4,4,[1-4](?:,[1-3])?|4,6,[45]")
_GROUPS_MAX = 5
_FIRST_DIGITS = "23456"  # of the networks that shops take


def mask_card_numbers(text: str) -> str:
    """Return `text` with card numbers masked but for their last four digits.

    A card number has 13 to 19 digits, single spaces or dashes between them, and a sound Luhn sum
    (ISO/IEC 7812-1 annex B). A customer may write the expiry date or an order number right beside
    it: so within a longer run of numbers, groups that look embossed are tried as well.
    """
    return _RUN.sub(_masked_run, text)


def _masked_run(match: re.Match[str]) -> str:
    run = match[0]
    if sum(map(str.isdigit, run)) < _LENGTHS.start:
        return run
    groups = [(group.start(), group.end()) for group in _GROUP.finditer(run)]
    out: list[str] = []
    at = 0
    for start, end in _card_spans(run, groups):
        if start >= at:
            out += [run[at:start], _masked(run[start:end])]
            at = end
    return "".join([*out, run[at:]])


def _card_spans(run: str, groups: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if _is_card(run):
        yield 0, len(run)
        return
    for first, (start, group_end) in enumerate(groups):
        if _is_card(run[start:group_end]):
            yield start, group_end
            continue
        for last in range(first + 2, min(first + _GROUPS_MAX, len(groups))):
            lengths = ",".join(str(to - since) for since, to in groups[first : last + 1])
            candidate = run[start : groups[last][1]]
            if run[start] in _FIRST_DIGITS and _EMBOSSED.fullmatch(lengths) and _is_card(candidate):
                yield start, groups[last][1]
                break


def _is_card(text: str) -> bool:
    digits = [int(letter) for letter in text if letter.isdigit()]
    if len(digits) not in _LENGTHS:
        return False
    doubled = (digit * 2 for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(d - 9 if d > 9 else d for d in doubled)) % 10 == 0


def _masked(number: str) -> str:
    to_hide = sum(map(str.isdigit, number)) - _LAST_KEPT
    out = []
    for letter in number:
        hidden = letter.isdigit() and to_hide > 0
        to_hide -= hidden
        out.append("*" if hidden else letter)
    return "".join(out)
