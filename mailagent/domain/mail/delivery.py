"""What became of a mail that we sent: the outcome of the API call, delivery events and bounces.

"The vendor" is the mail provider. The words of its API belong in the adapters.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum


@dataclass(frozen=True, slots=True)
class Accepted:
    """The vendor took the mail. It is not delivered yet: later events say whether it was.

    `provider_id` is the vendor's id of it; None if the response had none.
    """

    provider_id: str | None


class Blame(Enum):
    """What caused a refusal, as far as the vendor says."""

    MAIL = "this mail, for certain"
    FIELD = "a field of this mail, which the vendor names"
    ACCOUNT = "the account or the settings: every other mail would be refused, too"
    UNSAID = "nothing is named"


@dataclass(frozen=True, slots=True)
class Refused:
    """The vendor answered that it does not take the mail. It was certainly not sent."""

    why: str
    blame: Blame


@dataclass(frozen=True, slots=True)
class NotSent:
    """Certainly not sent; may be tried again after `retry_after_seconds`."""

    why: str
    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The vendor's response was lost. To send again could write to the customer twice: look it up first."""

    why: str


class Trace(Enum):
    """What a search of the vendor's records found about a mail whose outcome is unknown."""

    FOUND = "the vendor has it"
    NONE = "the vendor does not have it, though it has others"
    NOT_ASKED = "not asked, or the account does not have the records"


SendOutcome = Accepted | Refused | NotSent | OutcomeUnknown


class DeliveryKind(StrEnum):
    """The kinds of delivery events. We do not track opens and clicks.

    A bounce is permanent. `BLOCKED`: the receiving server refused this mail, or deferred it for too long; later
    mail to the address may arrive.
    """

    PROCESSED = "processed"
    DEFERRED = "deferred"
    DELIVERED = "delivered"
    BOUNCE = "bounce"
    BLOCKED = "blocked"
    DROPPED = "dropped"
    SPAMREPORT = "spamreport"

    @property
    def not_reached(self) -> bool:
        """Whether the recipient did not get the mail, or reported it as spam: a person must see it."""
        return self in (
            DeliveryKind.BOUNCE,
            DeliveryKind.BLOCKED,
            DeliveryKind.DROPPED,
            DeliveryKind.SPAMREPORT,
        )


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


# --- bounce ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailedRecipient:
    """One recipient of a delivery status notification (RFC 3464 section 2.3).

    `address` is normalised, or empty if the report names none; `original` is the address that the sender
    wrote, or empty (Original-Recipient). `action` is failed, delayed, delivered, relayed, expanded, or empty.
    `status` is an enhanced status code such as 5.1.1 (RFC 3463), or empty.
    """

    address: str
    action: str = ""
    status: str = ""
    original: str = ""

    @property
    def permanent(self) -> bool:
        """Whether a later mail to this address will fail, too."""
        return self.status.startswith("5") and self.action in {"", "failed"}


@dataclass(frozen=True, slots=True)
class Bounce:
    """A bounce. `returned_message_id` is the Message-ID, without angle brackets, of the mail that came back;
    None if the bounce does not say."""

    recipients: tuple[FailedRecipient, ...] = ()
    returned_message_id: str | None = None

    def of(self, address: str) -> tuple[FailedRecipient, ...] | None:
        """Return the recipients that have this address; None if the bounce names only others.

        A bounce that names no address is about the recipient of the returned mail, so it returns all.
        """
        named = [one for one in self.recipients if one.address or one.original]
        if not named:
            return self.recipients
        return tuple(one for one in named if address in (one.address, one.original)) or None
