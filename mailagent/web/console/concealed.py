"""Words as pages may show them: without what would let their reader act as somebody else.

A quoted mail can hold a manager's link, a login, a reply address, or a code worth money.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mailagent.domain.mail.message import Purpose
from mailagent.domain.mail.secrets import without_keys
from mailagent.domain.refunds.goodwill import hide_code_shapes, hide_codes

# Mails that are links in themselves: only their one reader may see them.
SECRET_PURPOSES = frozenset({Purpose.LOGIN.value, Purpose.APPROVAL_REQUEST.value})

_LINK = re.compile(r"""(?:https?://[^\s<>"']{0,300})?/(?:approvals|ops/login)/[^\s<>"')\]]+""")
# As `domain.mail.token_address` writes them, whichever door they lead to.
_REPLY_ADDRESS = re.compile(r"[a-z]{2,20}\+[a-z2-7]{16,32}@[\w.-]+", re.IGNORECASE)


def conceal(text: str, codes: Sequence[str] = ()) -> str:
    """Return a text without links that act for somebody, reply addresses and discount codes."""
    # The words that open something first: a link may end where a line does, its word does not.
    shown = _LINK.sub("[link]", without_keys(text))
    return hide_codes(_REPLY_ADDRESS.sub("[reply address]", shown), tuple(codes))


def conceal_line(text: str) -> str:
    """Return a line of a list, such as a subject, as `conceal` does, and without whatever may be a
    discount code: nobody looks up here whose codes they are."""
    return hide_code_shapes(conceal(text))


def mask_code(code: str) -> str:
    """Return a discount code as people may tell it apart, and nobody can use it."""
    return f"{code[:4]}-…"
