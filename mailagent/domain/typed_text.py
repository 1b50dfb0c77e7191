"""Text that people or other systems typed: which characters a row, a page or a mail may hold.

What mail may hold is read more forgivingly, by the adapters.
"""

from __future__ import annotations

import re

# PostgreSQL takes no NUL, no database takes half a surrogate pair, and a terminal obeys the rest.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS_AND_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def without_controls(text: str) -> str:
    """Return `text` without control characters and lone surrogates; lines end in a line feed."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def is_one_line(text: str) -> bool:
    """Say whether `text` is one line without control characters and lone surrogates."""
    return _CONTROLS_AND_BREAKS.search(text) is None
