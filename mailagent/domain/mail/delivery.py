"""What becomes of a mail that we hand to the mail vendor: the outcome of the one call, and the
events that arrive for it later. The vendor's own words belong in the adapters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum


@dataclass(frozen=True, slots=True)
class Accepted:
    """The vendor took the mail. It is not delivered yet: events tell what becomes of it.

    `provider_id` is the vendor's name for it, None when the answer carried none.
    """

    provider_id: str | None


class Blame(Enum):
    """What a refusal is about, as far as the vendor says."""

    MAIL = "this mail, for certain"
    FIELD = "a field of this mail, which the vendor names"
    ACCOUNT = "the account or the settings: every other mail would be refused, too"
    UNSAID = "nothing is named"


@dataclass(frozen=True, slots=True)
class Refused:
    """The vendor has answered that it does not take the mail: certainly not sent."""

    why: str
    blame: Blame


@dataclass(frozen=True, slots=True)
class NotSent:
    """Certainly not sent; may be tried again after `retry_after_seconds`."""

    why: str
    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The answer was lost. Sending again could write to the customer twice: look it up first."""

    why: str


class Trace(Enum):
    """What the vendor's own records say of a mail whose answer was lost."""

    FOUND = "the vendor has it"
    NONE = "the vendor does not have it, though it has others"
    NOT_ASKED = "not asked, or the account does not have the records"


SendOutcome = Accepted | Refused | NotSent | OutcomeUnknown


class DeliveryKind(StrEnum):
    """What a delivery event says. Opens and clicks are not tracked and not listed."""

    PROCESSED = "processed"
    DEFERRED = "deferred"
    DELIVERED = "delivered"
    BOUNCE = "bounce"
    DROPPED = "dropped"
    SPAMREPORT = "spamreport"

    @property
    def not_reached(self) -> bool:
        """Whether the recipient did not get the mail, or does not want ours: a person must see it."""
        return self in (DeliveryKind.BOUNCE, DeliveryKind.DROPPED, DeliveryKind.SPAMREPORT)


@dataclass(frozen=True, slots=True)
class DeliveryEvent:
    """One thing that happened to a mail of ours. Events repeat and come in any order.

    `key` is equal for every delivery of the same event; store it under a unique index.
    """

    outbound_id: str
    event: DeliveryKind
    reason: str | None
    occurred_at: datetime
    key: str
