"""When to try again, as pure decisions. The waiting itself is a durable sleep of a workflow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from mailagent.domain.mail.delivery import Blame, Trace
from mailagent.domain.mail.message import OutboundStatus, Purpose

MAIL_IS_STALE_AFTER = timedelta(days=3)  # as long as SendGrid itself keeps trying (72 hours)
SILENCES_BEFORE_GIVING_UP = (
    3  # of `outcome_seconds` each, in which a later mail may show events come
)
PAYMENT_NEEDS_OPERATOR_AFTER = 40  # attempts: about a day and a half of back-off
# Of a gateway that is away: as long as those attempts.
PAYMENT_IS_STUCK_AFTER = timedelta(hours=36)
# Looks at a refund that the gateway has and has not settled: two weeks of one an hour. Banks take days.
PENDING_NEEDS_OPERATOR_AFTER = 336

MOST_WAKE_UPS = 5  # for one row; then people have it
CANCELLED_IS_LEFT_FOR = timedelta(days=1)  # long enough for whoever cancelled it to come back to it


# A mail that is refused while no other is handed over waits so long for one that shows what it is about.
REFUSED_ALONE_FOR = timedelta(minutes=2)
RECIPIENTS_OF_AN_OUTAGE = 3  # refused in a row: then it is not about them
# Refused again so often after another mail was accepted: once may be a SendGrid that comes and goes.
REFUSALS_OF_ONE_MAIL = 2
# The same while others are refused, too: so that a few bad addresses do not hold up all mail for days.
REFUSALS_AMONG_OTHERS = 6


class Verdict(Enum):
    """What a refusal means for the mail."""

    FAILED = "it is about this mail: people are told"
    AGAIN = "not known yet: it is tried again soon"
    OUTAGE = "it is about every mail: this one waits with the others"


def judge_refusal(
    blame: Blame, refused_for: timedelta, refused_beside: int, recipients: int
) -> Verdict:
    """Decide about a mail that was refused, for the first time since another was accepted `refused_for` ago.

    `refused_beside`: how often it was refused again after another mail had been accepted in between.
    `recipients`: to how many different addresses mail was refused in that time and before it, back to when
    one was last accepted, this one's among them. What SendGrid says is not enough: while it is in trouble
    it answers 400 to everything.
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
    """Return how long to wait after the `attempt`-th failure (from 1): doubling, with a ceiling."""
    return float(min(longest_seconds, first_seconds * 2 ** min(attempt - 1, 30)))


def share_of(name: str) -> float:
    """Return a number from 0 to below 1, the same for the same name and spread evenly over names."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32


# Whether a mail may go out twice, under one Message-ID, where nobody can tell whether it went out. Of their
# money customers have to hear. Of an answer the team is told, which writes to the customer itself; and of mail
# to our own people the next of them is asked or told.
MAY_GO_TWICE: Mapping[Purpose, bool] = {
    Purpose.RECEIPT: True,
    Purpose.REFUND_OUTCOME: True,
    Purpose.REPLY: False,
    Purpose.TEAM_REPLY: False,
    Purpose.APPROVAL_REQUEST: False,
    Purpose.HAND_OVER: False,
    Purpose.NOTICE: False,
    Purpose.LOGIN: False,
}

SAW_LATER_MAIL = "SendGrid told of a mail handed over later, and not of this one"
HAS_NO_TRACE = "SendGrid's records have a mail handed over later, and no trace of this one"
NOBODY_KNOWS = "nobody knows whether it went out, and twice is better than never"


@dataclass(frozen=True, slots=True)
class MailState:
    """What is on record about a mail of ours. `accepted`: an event shows that the vendor has it;
    `undelivered`: an event shows that its recipient did not get it; `sent_again`: it was handed over
    once more already because nobody knew. `away`: the vendor is not asked for now; `back_at`: when it was
    last asked again after that. `trace`: what the vendor's records say; `may_go_twice`: of its purpose."""

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
    """What the event webhook has told so far, other than about the mail in question."""

    NEVER = "never"  # nothing, of any mail
    NONE_LATER = "none later"  # of earlier mails only: perhaps events are late, or come no more
    LATER = "later"  # of a mail that was handed over later


@dataclass(frozen=True, slots=True)
class SendNow:
    pass


@dataclass(frozen=True, slots=True)
class WaitFor:
    seconds: float


@dataclass(frozen=True, slots=True)
class Settle:
    """The mail's state is known now, or will never be: record `status`. `why`: why it is sent again."""

    status: OutboundStatus
    why: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is left to do."""


def decide_delivery(
    mail: MailState, now: datetime, outcome_seconds: int, events: Events
) -> SendNow | WaitFor | Settle | Settled:
    """Decide what to do about a mail that did not simply go out.

    A mail that says "sending" was with the vendor when the process died, or the answer was lost. If any event
    names it, or the vendor's records have it, it went out. If none came for `outcome_seconds`, but one for a
    mail handed over later did, or the records have such a mail and no trace of this one, it did not, and is
    sent again under the same Message-ID: once. Silence alone proves nothing; if no later mail breaks it, the
    mail is given up, or sent once more if it may go twice. Where no event ever came, at once.
    While the vendor is away no later mail can break it, so silence begins when it is back; but a mail
    that is too old to be sent is not waited for any longer.
    """
    if mail.undelivered and mail.status is not OutboundStatus.UNDELIVERED:
        return Settle(OutboundStatus.UNDELIVERED)
    if mail.status not in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
        return Settled()
    if mail.accepted:
        return Settle(OutboundStatus.SENT)
    if mail.status is OutboundStatus.SENDING:
        return _decide_unknown(mail, now, timedelta(seconds=outcome_seconds), events)
    if now >= mail.created_at + MAIL_IS_STALE_AFTER:
        return Settle(OutboundStatus.FAILED)
    if mail.next_attempt_at is not None and now < mail.next_attempt_at:
        return WaitFor((mail.next_attempt_at - now).total_seconds())
    return SendNow()


def _decide_unknown(
    mail: MailState, now: datetime, silence: timedelta, events: Events
) -> WaitFor | Settle:
    silent_for = _silent_for(mail, now)
    if silent_for < silence:
        return WaitFor((silence - silent_for).total_seconds())
    if mail.trace is Trace.FOUND:
        return Settle(OutboundStatus.SENT)
    if mail.sent_again:
        return Settle(OutboundStatus.UNKNOWN)
    if events is Events.LATER:
        return Settle(OutboundStatus.QUEUED, SAW_LATER_MAIL)
    if mail.trace is Trace.NONE:
        return Settle(OutboundStatus.QUEUED, HAS_NO_TRACE)
    if events is Events.NEVER or silent_for >= silence * SILENCES_BEFORE_GIVING_UP:
        return _give_up(mail, now)
    return WaitFor((silence - silent_for % silence).total_seconds())


def _give_up(mail: MailState, now: datetime) -> Settle:
    if mail.may_go_twice and now < mail.created_at + MAIL_IS_STALE_AFTER:
        return Settle(OutboundStatus.QUEUED, NOBODY_KNOWS)
    return Settle(OutboundStatus.UNKNOWN)


def is_trace_wanted(mail: MailState, now: datetime, outcome_seconds: int) -> bool:
    """Return whether the vendor is to be asked for its records of a mail: nobody knows, and it was silent."""
    unknown = mail.status is OutboundStatus.SENDING and not (mail.accepted or mail.undelivered)
    silence = timedelta(seconds=outcome_seconds)
    return unknown and not mail.away and _silent_for(mail, now) >= silence


def _silent_for(mail: MailState, now: datetime) -> timedelta:
    handed_over_at = mail.sending_at or mail.created_at
    if now - handed_over_at >= MAIL_IS_STALE_AFTER:
        return now - handed_over_at
    if mail.away:
        return timedelta(0)
    return now - max(handed_over_at, mail.back_at or handed_over_at)


class LastRun(StrEnum):
    """What became of the latest run that was enqueued for a row."""

    AT_WORK = "at work"
    OVER = "over"  # it ended well, or there is none: nobody looks after the row
    FAILED = "failed"
    CANCELLED = "cancelled"  # by an operator


class Care(Enum):
    """What the sweep does about a row that waits."""

    LEAVE = "leave"
    RING = "wake"
    GIVE_TO_PEOPLE = "give to people"


def wake_pause(wake_ups: int) -> timedelta:
    """Return how long a row waits after a failed run before it is enqueued for again: 5 minutes, then
    three times as long each time, at most a day. Five wake-ups take about ten hours."""
    return min(timedelta(minutes=5 * 3 ** min(wake_ups, 10)), timedelta(days=1))


def decide_care(
    last_run: LastRun,
    quiet_for: timedelta,
    wake_ups: int,
    overdue: bool | None = None,
    cancel_counts: bool = True,
) -> Care:
    """Decide about a row that waits, `quiet_for` long after its last run ended, after `wake_ups` wake-ups.

    `wake_ups` above MOST_WAKE_UPS says that people have it already. `overdue` is None for a row without a
    date of its own. A date that has passed must be acted on, whatever became of the runs. Without
    `cancel_counts` a cancelled run is one that is over: nothing it could have stopped is left to do.
    """
    if last_run is LastRun.CANCELLED and not cancel_counts:
        last_run = LastRun.OVER
    if last_run is LastRun.AT_WORK:
        return Care.LEAVE
    rested = last_run is LastRun.OVER or quiet_for >= wake_pause(wake_ups)
    if overdue and rested:
        return Care.RING
    if wake_ups > MOST_WAKE_UPS:
        return Care.LEAVE
    if last_run is LastRun.CANCELLED:
        # What an operator stopped stays stopped. Its date comes by itself; without one people must see it.
        is_forgotten = overdue is None and quiet_for >= CANCELLED_IS_LEFT_FOR
        return Care.GIVE_TO_PEOPLE if is_forgotten else Care.LEAVE
    if wake_ups == MOST_WAKE_UPS:
        return Care.GIVE_TO_PEOPLE
    return Care.RING if rested else Care.LEAVE
