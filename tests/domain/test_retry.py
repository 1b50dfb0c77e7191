"""When a mail that did not simply go out is sent again, waited for, or given up."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mailagent.domain.mail.delivery import Blame, Trace
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.operations.retry import (
    HAS_NO_TRACE,
    MAIL_IS_STALE_AFTER,
    MAY_GO_TWICE,
    NOBODY_KNOWS,
    SAW_LATER_MAIL,
    Care,
    Done,
    Events,
    LastRun,
    MailState,
    SendNow,
    SetStatus,
    Verdict,
    WaitFor,
    are_events_wanted,
    backoff_seconds,
    decide_care,
    decide_delivery,
    is_trace_wanted,
    judge_refusal,
)
from tests.cast import NOW

SECOND = timedelta(seconds=1)


def state(
    status: OutboundStatus,
    created_at: datetime = NOW,
    sending_at: datetime | None = None,
    next_attempt_at: datetime | None = None,
    accepted: bool = False,
    sent_again: bool = False,
) -> MailState:
    return MailState(
        status, created_at, sending_at, next_attempt_at, accepted, sent_again=sent_again
    )


def silent(**delta: float) -> MailState:
    """A mail that was handed over this long ago; nobody knows whether it went out."""
    return state(SENDING, sending_at=NOW - timedelta(**delta))


QUEUED, SENDING, SENT = OutboundStatus.QUEUED, OutboundStatus.SENDING, OutboundStatus.SENT
UNKNOWN = OutboundStatus.UNKNOWN
MINUTE = timedelta(seconds=60)
NEVER, NONE_LATER, LATER = Events.NEVER, Events.NONE_LATER, Events.LATER


@pytest.mark.parametrize(
    ("mail", "events", "expected"),
    [
        (state(QUEUED), LATER, SendNow()),
        (state(QUEUED, next_attempt_at=NOW), LATER, SendNow()),
        (state(QUEUED, next_attempt_at=NOW + SECOND), LATER, WaitFor(1)),
        (state(QUEUED, created_at=NOW - MAIL_IS_STALE_AFTER + SECOND), LATER, SendNow()),
        (
            state(QUEUED, created_at=NOW - MAIL_IS_STALE_AFTER),
            LATER,
            SetStatus(OutboundStatus.FAILED),
        ),
        (state(SENDING, sending_at=NOW, accepted=True), LATER, SetStatus(SENT)),
        (state(QUEUED, accepted=True), LATER, SetStatus(SENT)),
        (state(SENT), LATER, Done()),
        (state(OutboundStatus.FAILED, accepted=True), LATER, Done()),
        (state(UNKNOWN), LATER, Done()),
    ],
)
def test_what_to_do_about_a_mail(
    mail: MailState, events: Events, expected: SendNow | WaitFor | SetStatus | Done
) -> None:
    assert decide_delivery(mail, NOW, 60, events) == expected


@pytest.mark.parametrize(
    ("mail", "events", "expected"),
    [
        (silent(seconds=0), LATER, WaitFor(60)),
        (silent(seconds=59), LATER, WaitFor(1)),
        (silent(seconds=60), LATER, SetStatus(QUEUED, SAW_LATER_MAIL)),
        (silent(hours=9), LATER, SetStatus(QUEUED, SAW_LATER_MAIL)),
        (silent(seconds=59), NONE_LATER, WaitFor(1)),
        (silent(seconds=60), NONE_LATER, WaitFor(60)),
        (silent(seconds=179), NONE_LATER, WaitFor(1)),
        (silent(seconds=180), NONE_LATER, SetStatus(UNKNOWN)),
        (silent(seconds=59), NEVER, WaitFor(1)),
        (silent(seconds=60), NEVER, SetStatus(UNKNOWN)),
        # While the vendor is away nothing breaks the silence; it begins when that is over.
        (replace(silent(hours=9), away=True), LATER, WaitFor(60)),
        (replace(silent(hours=9), away=True), NONE_LATER, WaitFor(60)),
        (replace(silent(hours=9), away=True), NEVER, WaitFor(60)),
        (replace(silent(hours=9), back_at=NOW - MINUTE + SECOND), LATER, WaitFor(1)),
        (replace(silent(hours=9), back_at=NOW - MINUTE), LATER, SetStatus(QUEUED, SAW_LATER_MAIL)),
        (replace(silent(hours=9), back_at=NOW - 3 * MINUTE + SECOND), NONE_LATER, WaitFor(1)),
        (replace(silent(hours=9), back_at=NOW - 3 * MINUTE), NONE_LATER, SetStatus(UNKNOWN)),
        (replace(silent(seconds=59), back_at=NOW - MINUTE), LATER, WaitFor(1)),
        (replace(silent(hours=71), away=True), NONE_LATER, WaitFor(60)),
        (replace(silent(hours=72), away=True), NONE_LATER, SetStatus(UNKNOWN)),
        (replace(silent(hours=72), back_at=NOW), NONE_LATER, SetStatus(UNKNOWN)),
        (state(SENDING, sending_at=NOW - MINUTE, sent_again=True), LATER, SetStatus(UNKNOWN)),
        (state(SENDING, sending_at=NOW, sent_again=True), LATER, WaitFor(60)),
        (state(SENDING, sending_at=NOW, sent_again=True, accepted=True), LATER, SetStatus(SENT)),
    ],
)
def test_a_mail_of_which_nobody_knows_is_sent_again_only_if_a_later_one_is_told_of(
    mail: MailState, events: Events, expected: SendNow | WaitFor | SetStatus
) -> None:
    assert decide_delivery(mail, NOW, 60, events) == expected


def quiet(may_go_twice: bool = True, trace: Trace = Trace.NOT_ASKED, **delta: float) -> MailState:
    """A mail of which nobody knows and that no later mail follows."""
    return replace(silent(**delta), may_go_twice=may_go_twice, trace=trace)


FOUND, NONE = Trace.FOUND, Trace.NONE


@pytest.mark.parametrize(
    ("mail", "events", "expected"),
    [
        # What the vendor's records say, once it was silent for long enough.
        (quiet(trace=FOUND, seconds=60), NEVER, SetStatus(SENT)),
        (quiet(False, trace=FOUND, seconds=60), LATER, SetStatus(SENT)),
        (replace(quiet(trace=FOUND, seconds=60), sent_again=True), NEVER, SetStatus(SENT)),
        (quiet(False, trace=NONE, seconds=60), NONE_LATER, SetStatus(QUEUED, HAS_NO_TRACE)),
        (quiet(False, trace=NONE, seconds=60), NEVER, SetStatus(QUEUED, HAS_NO_TRACE)),
        (replace(quiet(trace=NONE, seconds=60), sent_again=True), NEVER, SetStatus(UNKNOWN)),
        # Nobody can tell: once more if twice is better than never, and never a third time.
        (quiet(seconds=59), NEVER, WaitFor(1)),
        (quiet(seconds=60), NEVER, SetStatus(QUEUED, NOBODY_KNOWS)),
        (quiet(seconds=179), NONE_LATER, WaitFor(1)),
        (quiet(seconds=180), NONE_LATER, SetStatus(QUEUED, NOBODY_KNOWS)),
        (replace(quiet(hours=1), sent_again=True), NEVER, SetStatus(UNKNOWN)),
        (replace(quiet(hours=1), sent_again=True), NONE_LATER, SetStatus(UNKNOWN)),
        (replace(quiet(hours=1), created_at=NOW - MAIL_IS_STALE_AFTER), NEVER, SetStatus(UNKNOWN)),
        (quiet(False, seconds=60), NEVER, SetStatus(UNKNOWN)),
        (quiet(False, seconds=180), NONE_LATER, SetStatus(UNKNOWN)),
    ],
)
def test_a_mail_nobody_knows_of_is_looked_up_or_sent_once_more_where_twice_is_better_than_never(
    mail: MailState, events: Events, expected: SendNow | WaitFor | SetStatus
) -> None:
    assert decide_delivery(mail, NOW, 60, events) == expected


@pytest.mark.parametrize(
    ("mail", "wanted"),
    [
        (silent(seconds=59), False),
        (silent(seconds=60), True),
        (replace(silent(seconds=60), away=True), False),
        (replace(silent(seconds=60), accepted=True), False),
        (replace(silent(seconds=60), undelivered=True), False),
        (state(QUEUED), False),
        (state(SENT), False),
    ],
)
def test_the_vendor_s_records_are_asked_of_a_mail_nobody_knows_of(
    mail: MailState, wanted: bool
) -> None:
    assert is_trace_wanted(mail, NOW, 60) is wanted


@pytest.mark.parametrize(
    ("mail", "wanted"),
    [
        (silent(seconds=59), False),
        (silent(seconds=60), True),
        (replace(silent(days=3), away=True), True),
        (replace(silent(seconds=60), away=True), False),
        (replace(silent(seconds=60), accepted=True), False),
        (replace(silent(seconds=60), undelivered=True), False),
        (state(QUEUED), False),
        (state(SENT), False),
    ],
)
def test_events_about_other_mail_are_read_only_if_the_decision_depends_on_them(
    mail: MailState, wanted: bool
) -> None:
    assert are_events_wanted(mail, NOW, 60) is wanted
    decisions = {repr(decide_delivery(mail, NOW, 60, events)) for events in Events}
    assert wanted or len(decisions) == 1


def test_only_mail_about_what_became_of_a_request_may_go_twice() -> None:
    assert set(MAY_GO_TWICE) == set(Purpose)
    assert {purpose for purpose, may in MAY_GO_TWICE.items() if may} == {
        Purpose.RECEIPT,
        Purpose.REFUND_OUTCOME,
        Purpose.REMEDY,
    }


TWO_MINUTES = timedelta(minutes=2)
MAIL, FIELD, ACCOUNT, UNSAID = Blame.MAIL, Blame.FIELD, Blame.ACCOUNT, Blame.UNSAID
LOST, AGAIN, OUTAGE = Verdict.FAILED, Verdict.AGAIN, Verdict.OUTAGE


@pytest.mark.parametrize(
    ("blame", "refused_for", "refused_beside", "recipients", "verdict"),
    [
        (MAIL, 0 * SECOND, 0, 9, LOST),
        (ACCOUNT, 0 * SECOND, 0, 1, OUTAGE),
        (ACCOUNT, 0 * SECOND, 9, 1, OUTAGE),
        # Not known yet.
        (UNSAID, 0 * SECOND, 0, 1, AGAIN),
        (FIELD, 0 * SECOND, 0, 1, AGAIN),
        (UNSAID, TWO_MINUTES - SECOND, 0, 2, AGAIN),
        # Another mail passed once, which a SendGrid that comes and goes lets, too.
        (FIELD, 5 * SECOND, 1, 1, AGAIN),
        # Others passed twice: it is this one, unless another is refused now.
        (UNSAID, 5 * SECOND, 2, 1, LOST),
        (FIELD, 5 * SECOND, 2, 1, LOST),
        (UNSAID, 5 * SECOND, 2, 2, AGAIN),
        (UNSAID, 5 * SECOND, 2, 9, OUTAGE),
        # A SendGrid that comes and goes, up to a limit: three bad addresses must not stop all mail for days.
        (UNSAID, 5 * SECOND, 5, 3, OUTAGE),
        (UNSAID, 5 * SECOND, 6, 3, LOST),
        (FIELD, 5 * SECOND, 6, 2, LOST),
        (ACCOUNT, 5 * SECOND, 6, 3, OUTAGE),
        # Others are refused, too.
        (UNSAID, 0 * SECOND, 0, 3, OUTAGE),
        (FIELD, 0 * SECOND, 0, 3, OUTAGE),
        (FIELD, TWO_MINUTES, 0, 2, OUTAGE),
        # Nothing else is sent.
        (FIELD, TWO_MINUTES, 0, 1, LOST),
        (UNSAID, TWO_MINUTES, 0, 1, OUTAGE),
    ],
)
def test_what_a_refusal_means(
    blame: Blame,
    refused_for: timedelta,
    refused_beside: int,
    recipients: int,
    verdict: Verdict,
) -> None:
    assert judge_refusal(blame, refused_for, refused_beside, recipients) is verdict


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 5), (2, 10), (3, 20), (10, 2560), (11, 3600), (10_000, 3600)]
)
def test_back_off_doubles_up_to_an_hour(attempt: int, seconds: float) -> None:
    assert backoff_seconds(attempt) == seconds


# --- rows that wait although no run looks after them ----------------------------------------------

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AT_WORK, OVER, FAILED, CANCELLED = LastRun.AT_WORK, LastRun.OVER, LastRun.FAILED, LastRun.CANCELLED
LEAVE, ENQUEUE, PEOPLE = Care.LEAVE, Care.ENQUEUE, Care.GIVE_TO_PEOPLE


@pytest.mark.parametrize(
    ("last_run", "quiet_for", "wake_ups", "overdue", "care"),
    [
        # A run at work is never doubled, however late it is.
        (AT_WORK, 9 * DAY, 0, None, LEAVE),
        (AT_WORK, 9 * DAY, 6, True, LEAVE),
        # Nobody looks after the row: at once, five times.
        (OVER, 0 * MINUTE, 0, None, ENQUEUE),
        (OVER, 0 * MINUTE, 4, None, ENQUEUE),
        (OVER, 0 * MINUTE, 5, None, PEOPLE),
        (OVER, 9 * DAY, 6, None, LEAVE),
        # A failed run: after a pause that grows.
        (FAILED, 5 * MINUTE - SECOND, 0, None, LEAVE),
        (FAILED, 5 * MINUTE, 0, None, ENQUEUE),
        (FAILED, 15 * MINUTE - SECOND, 1, None, LEAVE),
        (FAILED, 15 * MINUTE, 1, None, ENQUEUE),
        (FAILED, 405 * MINUTE - SECOND, 4, None, LEAVE),
        (FAILED, 405 * MINUTE, 4, False, ENQUEUE),
        (FAILED, 0 * MINUTE, 5, None, PEOPLE),
        (FAILED, 9 * DAY, 6, None, LEAVE),
        # A cancelled run: people see it after a day, unless the row has a date that is to come.
        (CANCELLED, DAY - SECOND, 0, None, LEAVE),
        (CANCELLED, DAY, 0, None, PEOPLE),
        (CANCELLED, DAY, 6, None, LEAVE),
        (CANCELLED, 6 * DAY, 0, False, LEAVE),
        # A date that has passed is acted on, though people have the case.
        (CANCELLED, 5 * MINUTE - SECOND, 0, True, LEAVE),
        (CANCELLED, 5 * MINUTE, 0, True, ENQUEUE),
        (FAILED, DAY - SECOND, 6, True, LEAVE),
        (FAILED, DAY, 6, True, ENQUEUE),
    ],
)
def test_care_for_rows_that_wait(
    last_run: LastRun, quiet_for: timedelta, wake_ups: int, overdue: bool | None, care: Care
) -> None:
    assert decide_care(last_run, quiet_for, wake_ups, overdue) is care


def test_a_cancel_that_stops_nothing_does_not_count() -> None:
    assert decide_care(CANCELLED, 0 * HOUR, 0, cancel_counts=False) is ENQUEUE
