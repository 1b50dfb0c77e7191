"""What a manager's mail in answer to a request means: a decision, or a note. Only unmistakable words decide.

Pure. Who wrote it, and whether it still counts, is for others to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mailagent.domain.typed_text import without_controls

NOTE_MAX_LENGTH = 2000

_APPROVE = frozenset(
    {
        *("approve", "approved", "i approve"),
        *("genehmigt", "ich genehmige", "freigegeben"),
        *("approuvé", "j'approuve"),
        *("aprobado", "apruebo"),
    }
)
_REJECT = frozenset(
    {
        *("reject", "rejected", "i reject", "decline", "declined"),
        *("abgelehnt", "ich lehne ab"),
        *("refusé", "je refuse", "rejeté"),
        *("rechazado", "rechazo"),
    }
)
# What people put around a word and mean nothing by. A question mark means something.
_AROUND = " \t\u00a0.!,;:*_\"“”„'«»"

# Whoever has such an address can decide, or log in, as somebody else. Slashes also as `%2F`, as where a
# mail filter has wrapped the link.
_KEY_LINK = re.compile(
    r"(?:/|%2f)(approvals|ops(?:/|%2f)login)(?:/|%2f)[A-Za-z0-9_.~-]{8,}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ManagersReply:
    """`approves` is None where nothing is decided; `note` is what else was written."""

    approves: bool | None
    note: str | None


def read_reply(new_text: str, our_text: str) -> ManagersReply:
    """Read what a manager newly wrote below nothing of ours: the first line decides, if it is one of the
    words alone, and all below is a note.

    `our_text` is the request that is answered. Where one of its own lines could be taken for a decision
    (a customer may have written it), no reply to it is: what is left of a quotation must not decide.
    """
    text = without_controls(new_text).strip()
    first, _, below = text.partition("\n")
    approves = _read_line(first)
    if approves is not None and any(
        _read_line(line.lstrip("> ")) is not None for line in our_text.splitlines()
    ):
        approves = None
    note = (text if approves is None else below).strip()
    return ManagersReply(approves, note[:NOTE_MAX_LENGTH].strip() or None)


def _read_line(line: str) -> bool | None:
    words = " ".join(line.replace("’", "'").strip(_AROUND).split()).casefold()
    if words in _APPROVE:
        return True
    return False if words in _REJECT else None


def without_keys(text: str) -> str:
    """Return a text without addresses by which its reader could decide or log in as somebody else:
    people quote the mails that hold them, and others read what they wrote."""
    return _KEY_LINK.sub(r"/\1/…", text)
