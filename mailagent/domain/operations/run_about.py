"""What a run of a workflow can be found by: ids, and a hash in place of a customer's address. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# Ours begin with what they name; an order's is the shop's own.
_KEYS = {"conversation_": "conversation", "refund_": "refund"}


class HeldUpBy(StrEnum):
    """What held a run up last: the model's provider (away, or refusing us), the day's budget for the model, or
    its limits of calls and tokens a minute. The attribute `held_up_by` of the run."""

    MODEL = "model"
    BUDGET = "budget"
    LIMITS = "limits"


def hash_customer(email: str) -> str:
    """Return what stands for a customer's address where no personal data belongs: at the model's
    provider and in the attributes of runs."""
    return hashlib.sha256(email.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class RunAbout:
    """What a run is about, as far as it is known."""

    conversation_id: str | None = None
    order_id: str | None = None
    refund_id: str | None = None
    customer_email: str | None = None

    def attributes(self, subject: str) -> dict[str, str]:
        """Return the attributes of a run that looks after the row `subject`. They are read in the DBOS
        console, too: nothing in them tells who the customer is."""
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
    """Return the attributes that a run about `term` may carry, one of which is enough. `term` is an id
    or a customer's address, as a person types it."""
    word = term.strip()
    if "@" in word:
        written = dict.fromkeys((word, word.casefold()))
        return [{"customer_hash": hash_customer(each)} for each in written]
    for prefix, key in _KEYS.items():
        if word.startswith(prefix):
            return [{"subject": word}, {key: word}]
    return [{"subject": word}, {"order": word}, {"customer_hash": word}]
