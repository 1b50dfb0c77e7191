"""The words by which a sentence says that a request for a refund was withdrawn, one line a language."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Said of a request, whatever else it says; of an order "cancelled" is a state like any other.
_WITHDRAWN = re.compile(
    r"\b(?:withdrawn|withdrew|retracted"
    r"|zurückgezogen|zurückgenommen"
    r"|retirée?s?"
    r"|retirad[oa]s?|retiramos|retiré)\b"
)
_CANCELLED = re.compile(r"\b(?:cancell?ed|storniert|annulée?s?|anulad[oa]s?|cancelad[oa]s?)\b")
_REQUEST = re.compile(
    r"@request@|\b(?:request|antrag|anfrage|bitte um|wunsch|demande|solicitud|petición)"
)
_CANCELLED_REQUEST = re.compile(
    r"\bcancell?ed (?:your|the|this) (?:@request@|(?:refund )?request\b)"
    r"|(?:@request@|(?:antrag|anfrage)\b).*\bstorniert\b"
    r"|\bannulé (?:votre|la) (?:@request@|demande\b)"
    r"|\b(?:anulado|cancelado) (?:su|la) (?:@request@|(?:solicitud|petición)\b)"
)
_REFUND = re.compile(r"\b(?:refund|(?:rück)?erstattung|rückzahlung|remboursement|reembolso)")


def says_withdrawn(clause: str) -> bool:
    """Say whether a clause tells of a request that was withdrawn; "not" and "if" are for the caller."""
    if _WITHDRAWN.search(clause):
        return bool(_REQUEST.search(clause) or _REFUND.search(clause))
    return bool(_CANCELLED.search(clause) and _REQUEST.search(clause))


def says_cancelled_request(clause: str) -> bool:
    """Say whether what a clause calls cancelled is a request, and not an order."""
    return bool(_CANCELLED_REQUEST.search(clause))


def without_withdrawal(words: Sequence[str]) -> list[str]:
    """Return a clause without its withdrawing, some words of which are also said of money going back."""
    if not says_withdrawn(" ".join(words)):
        return list(words)
    return [word for word in words if not _WITHDRAWN.fullmatch(word)]
