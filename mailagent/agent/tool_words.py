"""Words of our tools in running text: their names, what they answer, and JSON as they answer it. No customer is
to read those."""

from __future__ import annotations

import re

# Names of tools and fields and all codes are snake_case, which nobody writes to a customer.
_CODE = re.compile(r"(?<![\w@./-])[^\W_]+(?:_[^\W_]+)+(?![\w@])")
# An object or a list begins, or a field stands with its text.
_JSON = re.compile(
    r"[{\[]\s{0,20}[\"'][^\"'\n]{0,80}[\"']\s{0,20}[:,}\]]|\"[a-z]{1,40}\"\s{0,20}:\s{0,20}\""
)


def find_json(text: str) -> list[str]:
    """Return where an object, a list or a field of JSON begins, or of Python."""
    return [match[0] for match in _JSON.finditer(text)]


def find_codes(text: str) -> list[str]:
    """Return the words that are written like `no_such_order`."""
    return [match[0] for match in _CODE.finditer(text)]
