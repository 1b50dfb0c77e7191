"""A discount given for goodwill: a code of its own, good for one later order until a date.

How large it may be is the policy's; here is what a code looks like and when it can be used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

# Neither letters that are read as others (0 and O, 1, I and L, U and V) nor small ones.
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_GROUPS, CODE_GROUP_LENGTH = 3, 4

_BETWEEN = re.compile(r"[\s\-\u2010-\u2015]+")


@dataclass(frozen=True, slots=True)
class GoodwillCode:
    """A discount of `percent` that was given for `order_id`. `used_on` is the order it was used on."""

    code: str
    order_id: str
    conversation_id: str
    mail_id: str
    percent: int
    policy_version: str | None
    issued_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    used_on: str | None = None

    def is_good(self, now: datetime) -> bool:
        """Whether it can still be used."""
        return self.used_at is None and now < self.expires_at


def normalise_code(typed: str) -> str:
    """Return a code as it is stored, whatever case, blanks and hyphens it was typed with; nothing for
    what cannot be one."""
    letters = _BETWEEN.sub("", typed).upper()
    if len(letters) != CODE_GROUPS * CODE_GROUP_LENGTH or not set(letters) <= set(CODE_ALPHABET):
        return ""
    groups = range(0, len(letters), CODE_GROUP_LENGTH)
    return "-".join(letters[start : start + CODE_GROUP_LENGTH] for start in groups)


def hide_codes(text: str, codes: tuple[str, ...]) -> str:
    """Return `text` with each of `codes`, however it is typed, put out of sight."""
    for code in codes:
        letters = re.escape(code.replace("-", ""))
        pattern = r"[\s\-\u2010-\u2015]*".join(letters)
        text = re.sub(pattern, "[code]", text, flags=re.IGNORECASE)
    return text
