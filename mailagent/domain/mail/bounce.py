"""What a bounce says: which recipients a mail of ours did not reach, and whether for good."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedRecipient:
    """One recipient of a delivery status notification (RFC 3464 section 2.3).

    `address` is normalised, or empty if the report names none; `original` is the one that the sender
    had written, where the report tells it, too. `action` is the report's word
    (failed, delayed, delivered, relayed, expanded), or empty. `status` is an enhanced code such as
    5.1.1 (RFC 3463), or empty.
    """

    address: str
    action: str = ""
    status: str = ""
    original: str = ""

    @property
    def permanent(self) -> bool:
        """Whether mailing this address again is of no use."""
        return self.status.startswith("5") and self.action in {"", "failed"}


@dataclass(frozen=True, slots=True)
class Bounce:
    """A bounce. `returned_message_id` is the bare Message-ID of the mail that came back, if told."""

    recipients: tuple[FailedRecipient, ...] = ()
    returned_message_id: str | None = None

    def of(self, address: str) -> tuple[FailedRecipient, ...] | None:
        """Return what it says of an address; None if it speaks of others only.

        A bounce that names nobody speaks of whoever the returned mail was for.
        """
        named = [one for one in self.recipients if one.address or one.original]
        if not named:
            return self.recipients
        return tuple(one for one in named if address in (one.address, one.original)) or None
