"""What a manager's mail in answer to a request means: a decision, or a note. Only unmistakable words decide.

Pure. Who wrote it, and whether it still counts, is for others to say.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class ManagersReply:
    """`approves` is None where nothing is decided; `note` is what else was written. `blocked`: whatever
    word stands in it, no reply to this request decides."""

    approves: bool | None
    note: str | None
    blocked: bool = False


def read_reply(new_text: str, our_text: str) -> ManagersReply:
    """Read what a manager newly wrote below nothing of ours: the first line decides, if it is one of the
    words alone, and all below is a note.

    `our_text` is the request that is answered. Where one of its own lines could be taken for a decision
    (a customer may have written it), no reply to it is: what is left of a quotation must not decide.
    """
    text = without_controls(new_text).strip()
    first, _, below = text.partition("\n")
    blocked = holds_word(our_text)
    approves = None if blocked else _read_line(first)
    note = (text if approves is None else below).strip()
    return ManagersReply(approves, note[:NOTE_MAX_LENGTH].strip() or None, blocked)


def holds_word(our_text: str) -> bool:
    """Whether a line of a request, perhaps of a customer's in it, could be taken for a decision."""
    return any(_read_line(line.lstrip("> ")) is not None for line in our_text.splitlines())


def _read_line(line: str) -> bool | None:
    words = " ".join(line.replace("’", "'").strip(_AROUND).split()).casefold()
    if words in _APPROVE:
        return True
    return False if words in _REJECT else None
