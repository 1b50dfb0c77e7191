"""Words of our tools in running text: their names, what they answer, and JSON as they answer it. No customer is
to read those."""

from __future__ import annotations

import re

# Names of tools and fields and all codes are snake_case, which nobody writes to a customer.
# Errors also with hyphens, which stand in plain words, too: so only whole ones.
_CODE = re.compile(
    r"(?<![\w@./-])(?:[^\W_]+(?:_[^\W_]+)+|no-such-order|sender-not-verified|not-for-this-order"
    r"|bad-arguments|one-call-at-a-time)(?![\w@])"
)
# An object or a list begins, or a field stands with its text.
_JSON = re.compile(
    r"\{\s{0,20}[A-Za-z_]{1,40}\s{0,20}:"
    r"|[{\[]\s{0,20}[\"'][^\"'\n]{0,80}[\"']\s{0,20}[:,}\]]|\"[a-z]{1,40}\"\s{0,20}:\s{0,20}\""
)


def find_json(text: str) -> list[str]:
    """Return where an object, a list or a field of JSON begins, or of Python."""
    return [match[0] for match in _JSON.finditer(text)]


def find_codes(text: str) -> list[str]:
    """Return the words that are written like `no_such_order`."""
    return [match[0] for match in _CODE.finditer(text)]
