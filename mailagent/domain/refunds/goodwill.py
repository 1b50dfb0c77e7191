"""Goodwill discounts: a code for one later order, valid until a date; and its redemption.

The policy sets how large a discount may be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

# Without characters that people mistake for others: 0 and O, 1, I and L, U (for V), and lower case.
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_GROUPS, CODE_GROUP_LENGTH = 3, 4

_BETWEEN = re.compile(r"[\s\-\u2010-\u2015]+")
_GROUP = f"[{CODE_ALPHABET}{CODE_ALPHABET.lower()}]{{{CODE_GROUP_LENGTH}}}"
_SHAPE = re.compile(
    rf"(?<!\w){_GROUP}(?:[\s\-\u2010-\u2015]{{0,2}}{_GROUP}){{{CODE_GROUPS - 1}}}(?!\w)"
)


@dataclass(frozen=True, slots=True)
class GoodwillCode:
    """A discount of `percent` on one later order, given because of `order_id`. `used_on`: the order on which
    the customer used it; None before."""

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
        return self.used_at is None and now < self.expires_at


def normalise_code(typed: str) -> str:
    """Return a typed code in the stored form, such as `K7MX-4PQR-9TWZ`, whatever its case, blanks and hyphens;
    an empty string for a text that is no code."""
    letters = _BETWEEN.sub("", typed).upper()
    if len(letters) != CODE_GROUPS * CODE_GROUP_LENGTH or not set(letters) <= set(CODE_ALPHABET):
        return ""
    groups = range(0, len(letters), CODE_GROUP_LENGTH)
    return "-".join(letters[start : start + CODE_GROUP_LENGTH] for start in groups)


def hide_codes(text: str, codes: tuple[str, ...]) -> str:
    """Return `text` with "[code]" in place of each of `codes`, whatever its case, blanks and hyphens."""
    for code in codes:
        letters = re.escape(code.replace("-", ""))
        pattern = r"[\s\-\u2010-\u2015]*".join(letters)
        text = re.sub(pattern, "[code]", text, flags=re.IGNORECASE)
    return text


def hide_code_shapes(text: str) -> str:
    """Return `text` with "[code]" in place of everything that looks like a code, for callers that do not know
    the codes. This also replaces some parcel numbers and other shops' codes."""

    def hide(found: re.Match[str]) -> str:
        # Nearly all codes have a digit. A match without digits and hyphens is three words of a sentence.
        hyphens = len(re.findall(r"[\-\u2010-\u2015]", found[0]))
        is_text = hyphens < CODE_GROUPS - 1 and not any(sign.isdigit() for sign in found[0])
        return found[0] if is_text else "[code]"

    return _SHAPE.sub(hide, text)


# --- redemption -----------------------------------------------------------------------------------


class Redeemed(StrEnum):
    NOW = "now"
    BEFORE_ON_SAME = "before, on the same order"
    BEFORE_ON_OTHER = "before, on another order"
    TOO_LATE = "too late"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Redemption:
    """The outcome of using a code. `code`: the discount as it is now; None if there is no such code."""

    outcome: Redeemed
    code: GoodwillCode | None = None

    @property
    def words(self) -> str:
        """Why the code was not used, as the end of a sentence; empty if it was used."""
        code = self.code
        if self.outcome is Redeemed.UNKNOWN or code is None:
            return "there is no such code"
        if self.outcome is Redeemed.TOO_LATE:
            return f"the code {code.code} expired on {_day(code.expires_at)}"
        if self.outcome is Redeemed.BEFORE_ON_OTHER:
            used_at = _day(code.used_at) if code.used_at else ""
            return f"the code {code.code} was used on {used_at}, on order {code.used_on}"
        return ""


def decide_redemption(code: GoodwillCode | None, order_id: str, now: datetime) -> Redemption:
    """Decide whether a code can be used on an order. Using it again on the same order changes nothing."""
    if code is None:
        return Redemption(Redeemed.UNKNOWN)
    if code.used_on is not None:
        same = code.used_on == order_id
        return Redemption(Redeemed.BEFORE_ON_SAME if same else Redeemed.BEFORE_ON_OTHER, code)
    return Redemption(Redeemed.NOW if code.is_good(now) else Redeemed.TOO_LATE, code)


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
