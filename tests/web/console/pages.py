"""The text of a console page."""

from __future__ import annotations

import re

SCRIPT = "<script>alert('x')</script>"


def plain(page: str) -> str:
    """Return the words of a page, on one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())
