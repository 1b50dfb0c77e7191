"""Decides when to try again: mail of ours, payments, and runs. Pure. Workflows wait by a durable sleep."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from mailagent.domain.mail.delivery import Blame, Trace
from mailagent.domain.mail.message import OutboundStatus, Purpose

MAIL_IS_STALE_AFTER = timedelta(days=3)  # mail providers themselves give up after this time
MAIL_IS_UNDER_WAY_FOR = MAIL_IS_STALE_AFTER + timedelta(days=1)  # at most, with a day in reserve
SILENCES_BEFORE_GIVING_UP = 3  # of `outcome_seconds` each
PAYMENT_NEEDS_OPERATOR_AFTER = 40  # attempts: about 30 hours of back-off
PAYMENT_IS_STUCK_AFTER = timedelta(hours=36)  # the same for a gateway that is away
PENDING_NEEDS_OPERATOR_AFTER = (
    336  # hourly looks at a pending refund: two weeks, because banks take days
)

MOST_WAKE_UPS = 5  # so often the sweep enqueues a run again for one row; then people get it
# Time for the operator who cancelled the run to return to it.
CANCELLED_IS_LEFT_FOR = timedelta(days=1)


# How long a refused mail waits for the outcome of another mail, which shows the cause of the refusal.
REFUSED_ALONE_FOR = timedelta(minutes=2)
RECIPIENTS_OF_AN_OUTAGE = 3  # so many refused addresses in a row: the recipient is not the cause
# A mail fails after so many refusals, with other mail accepted in between. One may be an unstable provider.
REFUSALS_OF_ONE_MAIL = 2
# The same while other addresses are refused, too, so that a few bad addresses do not hold up all mail for days.
REFUSALS_AMONG_OTHERS = 6


class Verdict(Enum):
    """What a refusal means for the mail."""

    FAILED = "it is about this mail: people are told"
    AGAIN = "not known yet: it is tried again soon"
    OUTAGE = "it is about every mail: this one waits with the others"


def judge_refusal(
    blame: Blame, refused_for: timedelta, refused_beside: int, recipients: int
) -> Verdict:
    """Decide what a refusal means for a mail. The provider's `blame` alone is not enough: an unstable provider
    answers 400 to everything.

    A series of a mail's refusals ends when another mail is accepted. `refused_for`: the age of the
    current series. `refused_beside`: how many series there were before. `recipients`: how many
    addresses, with its own, were refused since the mail provider last accepted a mail.
    """
    if blame is Blame.MAIL:
        return Verdict.FAILED
    enough = REFUSALS_OF_ONE_MAIL if recipients == 1 else REFUSALS_AMONG_OTHERS
    if refused_beside >= enough and blame is not Blame.ACCOUNT:
        return Verdict.FAILED
    if blame is Blame.ACCOUNT or recipients >= RECIPIENTS_OF_AN_OUTAGE:
        return Verdict.OUTAGE
    if refused_for < REFUSED_ALONE_FOR:
        return Verdict.AGAIN
    return Verdict.FAILED if blame is Blame.FIELD and recipients == 1 else Verdict.OUTAGE


def backoff_seconds(attempt: int, first_seconds: float = 5, longest_seconds: float = 3600) -> float:
    """Return the pause in seconds after the `attempt`-th failure, counted from 1. It begins with
    `first_seconds` and doubles up to `longest_seconds`."""
    return float(min(longest_seconds, first_seconds * 2 ** min(attempt - 1, 30)))


def share_of(name: str) -> float:
    """Return a number from 0 to below 1, the same for the same name and spread evenly over names."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32


# Whether we send a mail again, under the same Message-ID, if its outcome stays unknown. Customers must hear
# what became of their money. Instead of an answer, the team gets a mail; instead of a mail to one of the shop's
# people, the next person gets one.
MAY_GO_TWICE: Mapping[Purpose, bool] = {
    Purpose.RECEIPT: True,
    Purpose.REFUND_OUTCOME: True,
    Purpose.REMEDY: True,
    Purpose.REPLY: False,
    Purpose.TEAM_REPLY: False,
    Purpose.APPROVAL_REQUEST: False,
    Purpose.HAND_OVER: False,
    Purpose.NOTICE: False,
    Purpose.LOGIN: False,
}

SAW_LATER_MAIL = "the mail provider told of a mail submitted later, and not of this one"
HAS_NO_TRACE = "the mail provider's records have a mail submitted later, and no trace of this one"
NOBODY_KNOWS = "nobody knows whether it went out, and twice is better than never"


@dataclass(frozen=True, slots=True)
class MailState:
    """What we know of a mail of ours.

    `accepted`: an event shows that the mail provider has it. `undelivered`: an event shows that it did not
    arrive. `sent_again`: we sent it again because its outcome was unknown. `away`: the provider's breaker is
    open. `back_at`: when the breaker last closed. `trace`: what the provider's records say. `may_go_twice`: as
    in MAY_GO_TWICE."""

    status: OutboundStatus
    created_at: datetime
    sending_at: datetime | None
    next_attempt_at: datetime | None
    accepted: bool
    undelivered: bool = False
    sent_again: bool = False
    away: bool = False
    back_at: datetime | None = None
    trace: Trace = Trace.NOT_ASKED
    may_go_twice: bool = False


class Events(StrEnum):
    """Which delivery events have come about other mails."""

    NOT_ASKED = "not asked"  # the decision does not depend on them
    NEVER = "never"
    NONE_LATER = "none later"  # only about mails sent earlier: events may be late, or come no more
    LATER = "later"  # about a mail sent later


@dataclass(frozen=True, slots=True)
class SendNow:
    pass


@dataclass(frozen=True, slots=True)
class WaitFor:
    seconds: float


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Set the mail's status. QUEUED sends it again, for the reason `why`; every other status ends its
    delivery."""

    status: OutboundStatus
    why: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""


def decide_delivery(
    mail: MailState, now: datetime, outcome_seconds: int, events: Events
) -> SendNow | WaitFor | SetStatus | Done:
    """Decide what to do about a mail that was not sent at once.

    A mail is "sending" if the process died while it sent the mail, or if the provider's response was lost. The
    mail was sent if an event names it or the provider's records have it. It was not sent if after
    `outcome_seconds` an event names a later mail, or the records have a later mail and not this one. Then we
    send it again, once, under the same Message-ID.

    If neither happens, we give it up after SILENCES_BEFORE_GIVING_UP times `outcome_seconds`, or send it once
    more if it may go twice. We do not wait so long if no event ever came. While the provider is away there are
    no later mails, so the time begins when it is back, unless the mail is older than MAIL_IS_STALE_AFTER."""
    if mail.undelivered and mail.status is not OutboundStatus.UNDELIVERED:
        return SetStatus(OutboundStatus.UNDELIVERED)
    if mail.status not in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
        return Done()
    if mail.accepted:
        return SetStatus(OutboundStatus.SENT)
    if mail.status is OutboundStatus.SENDING:
        return _decide_unknown(mail, now, timedelta(seconds=outcome_seconds), events)
    if now >= mail.created_at + MAIL_IS_STALE_AFTER:
        return SetStatus(OutboundStatus.FAILED)
    if mail.next_attempt_at is not None and now < mail.next_attempt_at:
        return WaitFor((mail.next_attempt_at - now).total_seconds())
    return SendNow()


def _decide_unknown(
    mail: MailState, now: datetime, silence: timedelta, events: Events
) -> WaitFor | SetStatus:
    silent_for = _silent_for(mail, now)
    if silent_for < silence:
        return WaitFor((silence - silent_for).total_seconds())
    if mail.trace is Trace.FOUND:
        return SetStatus(OutboundStatus.SENT)
    if mail.sent_again:
        return SetStatus(OutboundStatus.UNKNOWN)
    if events is Events.LATER:
        return SetStatus(OutboundStatus.QUEUED, SAW_LATER_MAIL)
    if mail.trace is Trace.NONE:
        return SetStatus(OutboundStatus.QUEUED, HAS_NO_TRACE)
    if events is Events.NEVER or silent_for >= silence * SILENCES_BEFORE_GIVING_UP:
        return _give_up(mail, now)
    return WaitFor((silence - silent_for % silence).total_seconds())


def _give_up(mail: MailState, now: datetime) -> SetStatus:
    if mail.may_go_twice and now < mail.created_at + MAIL_IS_STALE_AFTER:
        return SetStatus(OutboundStatus.QUEUED, NOBODY_KNOWS)
    return SetStatus(OutboundStatus.UNKNOWN)


def is_trace_wanted(mail: MailState, now: datetime, outcome_seconds: int) -> bool:
    """Return whether to search the mail provider's records: the outcome is unknown, no event came within
    `outcome_seconds`, and the provider can be called."""
    return not mail.away and are_events_wanted(mail, now, outcome_seconds)


def are_events_wanted(mail: MailState, now: datetime, outcome_seconds: int) -> bool:
    """Return whether `decide_delivery` depends on events about other mails: the outcome is unknown, and no
    event came within `outcome_seconds`."""
    unknown = mail.status is OutboundStatus.SENDING and not (mail.accepted or mail.undelivered)
    return unknown and _silent_for(mail, now) >= timedelta(seconds=outcome_seconds)


def _silent_for(mail: MailState, now: datetime) -> timedelta:
    submitted_at = mail.sending_at or mail.created_at
    if now - submitted_at >= MAIL_IS_STALE_AFTER:
        return now - submitted_at
    if mail.away:
        return timedelta(0)
    return now - max(submitted_at, mail.back_at or submitted_at)


class LastRun(StrEnum):
    """The state of the last run that we enqueued for a row."""

    AT_WORK = "at work"
    OVER = "over"  # it succeeded, or there is none
    FAILED = "failed"
    CANCELLED = "cancelled"  # by an operator


class Care(Enum):
    """What the sweep does about a row that waits."""

    LEAVE = "leave"
    ENQUEUE = "enqueue"
    GIVE_TO_PEOPLE = "give to people"


def wake_pause(wake_ups: int) -> timedelta:
    """Return the pause between a failed run and the next: 5 minutes, and each time three times as long, at most
    a day. `wake_ups`: how many runs the sweep has enqueued so far. Five runs take about ten hours."""
    return min(timedelta(minutes=5 * 3 ** min(wake_ups, 10)), timedelta(days=1))


def decide_care(
    last_run: LastRun,
    quiet_for: timedelta,
    wake_ups: int,
    overdue: bool | None = None,
    cancel_counts: bool = True,
) -> Care:
    """Decide what the sweep does about a waiting row.

    `quiet_for`: the time since its last run ended. `wake_ups`: how many runs the sweep has enqueued for it;
    above MOST_WAKE_UPS, people have it already. `overdue`: whether its date has passed, None if it has no date;
    after the date it always gets a run, because a workflow must act on the date. Without `cancel_counts`, a
    cancelled run counts as over."""
    if last_run is LastRun.CANCELLED and not cancel_counts:
        last_run = LastRun.OVER
    if last_run is LastRun.AT_WORK:
        return Care.LEAVE
    rested = last_run is LastRun.OVER or quiet_for >= wake_pause(wake_ups)
    if overdue and rested:
        return Care.ENQUEUE
    if wake_ups > MOST_WAKE_UPS:
        return Care.LEAVE
    if last_run is LastRun.CANCELLED:
        # A cancelled run stays cancelled. Its row has a date, or people must see it.
        is_forgotten = overdue is None and quiet_for >= CANCELLED_IS_LEFT_FOR
        return Care.GIVE_TO_PEOPLE if is_forgotten else Care.LEAVE
    if wake_ups == MOST_WAKE_UPS:
        return Care.GIVE_TO_PEOPLE
    return Care.ENQUEUE if rested else Care.LEAVE
