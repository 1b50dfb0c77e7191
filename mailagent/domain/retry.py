"""When to try again, as pure decisions. The waiting itself is a durable sleep of a workflow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mailagent.domain.mail import OutboundStatus

MAIL_IS_STALE_AFTER = timedelta(days=3)  # as long as SendGrid itself keeps trying (72 hours)
PAYMENT_NEEDS_OPERATOR_AFTER = 40  # attempts: about a day and a half of back-off


def backoff_seconds(attempt: int, first_seconds: float = 5, longest_seconds: float = 3600) -> float:
    """Return how long to wait after the `attempt`-th failure (from 1): doubling, with a ceiling."""
    return float(min(longest_seconds, first_seconds * 2 ** min(attempt - 1, 30)))


@dataclass(frozen=True, slots=True)
class MailState:
    """What is on record about a mail of ours. `accepted`: an event shows that the vendor has it;
    `undelivered`: an event shows that its recipient did not get it."""

    status: OutboundStatus
    created_at: datetime
    sending_at: datetime | None
    next_attempt_at: datetime | None
    accepted: bool
    undelivered: bool = False


@dataclass(frozen=True, slots=True)
class SendNow:
    pass


@dataclass(frozen=True, slots=True)
class WaitFor:
    seconds: float


@dataclass(frozen=True, slots=True)
class Settle:
    """The mail's state is known now, or will never be: record `status`."""

    status: OutboundStatus


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is left to do."""


def decide_delivery(
    mail: MailState, now: datetime, outcome_seconds: int, events_are_wired: bool
) -> SendNow | WaitFor | Settle | Settled:
    """Decide what to do about a mail that did not simply go out.

    A mail that says "sending" was with the vendor when the process died, or the answer was lost. If
    any event names it, it went out. If none came for `outcome_seconds` although events reach us, it
    did not, and may be sent again under the same Message-ID. Without events nobody can know.
    """
    if mail.undelivered and mail.status is not OutboundStatus.UNDELIVERED:
        return Settle(OutboundStatus.UNDELIVERED)
    if mail.status not in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
        return Settled()
    if mail.accepted:
        return Settle(OutboundStatus.SENT)
    if mail.status is OutboundStatus.SENDING:
        settled_at = (mail.sending_at or mail.created_at) + timedelta(seconds=outcome_seconds)
        if now < settled_at:
            return WaitFor((settled_at - now).total_seconds())
        return Settle(OutboundStatus.QUEUED if events_are_wired else OutboundStatus.UNKNOWN)
    if now >= mail.created_at + MAIL_IS_STALE_AFTER:
        return Settle(OutboundStatus.FAILED)
    if mail.next_attempt_at is not None and now < mail.next_attempt_at:
        return WaitFor((mail.next_attempt_at - now).total_seconds())
    return SendNow()
