"""The DBOS attributes by which people find a run: ids, and a hash instead of a customer's address. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# The prefixes of our ids. An order's id is the shop's own.
_KEYS = {"conversation_": "conversation", "refund_": "refund"}


class HeldUpBy(StrEnum):
    """What a run waited for last (its attribute `held_up_by`): the model's provider, the daily budget, the rate
    limits, or the order source."""

    MODEL = "model"
    BUDGET = "budget"
    LIMITS = "limits"
    ORDERS = "orders"


def hash_customer(email: str) -> str:
    """Return a hash of a customer's address. The model's provider and the attributes of runs get it instead of
    personal data."""
    return hashlib.sha256(email.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class RunAbout:
    """What a run is about, as far as known."""

    conversation_id: str | None = None
    order_id: str | None = None
    refund_id: str | None = None
    customer_email: str | None = None

    def attributes(self, subject: str) -> dict[str, str]:
        """Return the attributes of a run about the row `subject`. The DBOS console shows them, so they do not
        name the customer."""
        hashed = None if self.customer_email is None else hash_customer(self.customer_email)
        named = {
            "subject": subject,
            "conversation": self.conversation_id,
            "order": self.order_id,
            "refund": self.refund_id,
            "customer_hash": hashed,
        }
        return {name: value for name, value in named.items() if value is not None}


def attributes_to_search(term: str) -> list[Mapping[str, str]]:
    """Return the attributes to search for. `term` is an id or a customer's address; a run about it has at least
    one of the returned attributes."""
    word = term.strip()
    if "@" in word:
        written = dict.fromkeys((word, word.casefold()))
        return [{"customer_hash": hash_customer(each)} for each in written]
    for prefix, key in _KEYS.items():
        if word.startswith(prefix):
            return [{"subject": word}, {key: word}]
    return [{"subject": word}, {"order": word}, {"customer_hash": word}]
