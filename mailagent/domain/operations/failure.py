"""What an error may say outside the database: one line, without what a person wrote or is called."""

from __future__ import annotations

import re

LONGEST = 200


class NeedsOperatorError(RuntimeError):
    """A run cannot go on until somebody has put something right. Its text is made of ids, kinds and reasons:
    DBOS keeps it, and the DBOS console shows it."""


_ADDRESS = re.compile(r"[^\s<>\"'(),;:]+@[^\s<>\"'(),;:]+")
# Errors quote the value they complain about; a database puts it in brackets: Key (name)=(value).
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<==)\([^)]*\)")
_LONG_NUMBER = re.compile(r"\d(?:[ -]?\d){8,}")


def tell_error(text: str | None) -> str:
    """Return the first line of an error without addresses, quoted values and long numbers."""
    lines = (text or "").strip().splitlines() or ["no reason is on record"]
    told = lines[0]
    for hidden in (_QUOTED, _ADDRESS, _LONG_NUMBER):
        told = hidden.sub("…", told)
    return told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"
