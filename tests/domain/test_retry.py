"""When a mail that did not simply go out is sent again, waited for, or given up."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mailagent.domain.mail import OutboundStatus
from mailagent.domain.retry import (
    MAIL_IS_STALE_AFTER,
    Care,
    Events,
    LastRun,
    MailState,
    SendNow,
    Settle,
    Settled,
    WaitFor,
    backoff_seconds,
    decide_care,
    decide_delivery,
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
        (state(QUEUED, created_at=NOW - MAIL_IS_STALE_AFTER), LATER, Settle(OutboundStatus.FAILED)),
        (state(SENDING, sending_at=NOW, accepted=True), LATER, Settle(SENT)),
        (state(QUEUED, accepted=True), LATER, Settle(SENT)),
        (state(SENT), LATER, Settled()),
        (state(OutboundStatus.FAILED, accepted=True), LATER, Settled()),
        (state(UNKNOWN), LATER, Settled()),
    ],
)
def test_what_to_do_about_a_mail(
    mail: MailState, events: Events, expected: SendNow | WaitFor | Settle | Settled
) -> None:
    assert decide_delivery(mail, NOW, 60, events) == expected


@pytest.mark.parametrize(
    ("mail", "events", "expected"),
    [
        (silent(seconds=0), LATER, WaitFor(60)),
        (silent(seconds=59), LATER, WaitFor(1)),
        (silent(seconds=60), LATER, Settle(QUEUED)),
        (silent(hours=9), LATER, Settle(QUEUED)),
        (silent(seconds=59), NONE_LATER, WaitFor(1)),
        (silent(seconds=60), NONE_LATER, WaitFor(60)),
        (silent(seconds=179), NONE_LATER, WaitFor(1)),
        (silent(seconds=180), NONE_LATER, Settle(UNKNOWN)),
        (silent(seconds=59), NEVER, WaitFor(1)),
        (silent(seconds=60), NEVER, Settle(UNKNOWN)),
        # While the vendor is away nothing breaks the silence; it begins when that is over.
        (replace(silent(hours=9), away=True), LATER, WaitFor(60)),
        (replace(silent(hours=9), away=True), NONE_LATER, WaitFor(60)),
        (replace(silent(hours=9), away=True), NEVER, WaitFor(60)),
        (replace(silent(hours=9), back_at=NOW - MINUTE + SECOND), LATER, WaitFor(1)),
        (replace(silent(hours=9), back_at=NOW - MINUTE), LATER, Settle(QUEUED)),
        (replace(silent(hours=9), back_at=NOW - 3 * MINUTE + SECOND), NONE_LATER, WaitFor(1)),
        (replace(silent(hours=9), back_at=NOW - 3 * MINUTE), NONE_LATER, Settle(UNKNOWN)),
        (replace(silent(seconds=59), back_at=NOW - MINUTE), LATER, WaitFor(1)),
        (replace(silent(hours=71), away=True), NONE_LATER, WaitFor(60)),
        (replace(silent(hours=72), away=True), NONE_LATER, Settle(UNKNOWN)),
        (replace(silent(hours=72), back_at=NOW), NONE_LATER, Settle(UNKNOWN)),
        (state(SENDING, sending_at=NOW - MINUTE, sent_again=True), LATER, Settle(UNKNOWN)),
        (state(SENDING, sending_at=NOW, sent_again=True), LATER, WaitFor(60)),
        (state(SENDING, sending_at=NOW, sent_again=True, accepted=True), LATER, Settle(SENT)),
    ],
)
def test_a_mail_of_which_nobody_knows_is_sent_again_only_if_a_later_one_is_told_of(
    mail: MailState, events: Events, expected: SendNow | WaitFor | Settle
) -> None:
    assert decide_delivery(mail, NOW, 60, events) == expected


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 5), (2, 10), (3, 20), (10, 2560), (11, 3600), (10_000, 3600)]
)
def test_back_off_doubles_up_to_an_hour(attempt: int, seconds: float) -> None:
    assert backoff_seconds(attempt) == seconds


# --- rows that wait although no run looks after them ----------------------------------------------

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AT_WORK, OVER, FAILED, CANCELLED = LastRun.AT_WORK, LastRun.OVER, LastRun.FAILED, LastRun.CANCELLED
LEAVE, RING, PEOPLE = Care.LEAVE, Care.RING, Care.GIVE_TO_PEOPLE


@pytest.mark.parametrize(
    ("last_run", "quiet_for", "rings", "overdue", "care"),
    [
        # A run at work is never doubled, however late it is.
        (AT_WORK, 9 * DAY, 0, None, LEAVE),
        (AT_WORK, 9 * DAY, 6, True, LEAVE),
        # Nobody looks after the row: at once, five times.
        (OVER, 0 * MINUTE, 0, None, RING),
        (OVER, 0 * MINUTE, 4, None, RING),
        (OVER, 0 * MINUTE, 5, None, PEOPLE),
        (OVER, 9 * DAY, 6, None, LEAVE),
        # A failed run: after a pause that grows.
        (FAILED, 5 * MINUTE - SECOND, 0, None, LEAVE),
        (FAILED, 5 * MINUTE, 0, None, RING),
        (FAILED, 15 * MINUTE - SECOND, 1, None, LEAVE),
        (FAILED, 15 * MINUTE, 1, None, RING),
        (FAILED, 405 * MINUTE - SECOND, 4, None, LEAVE),
        (FAILED, 405 * MINUTE, 4, False, RING),
        (FAILED, 0 * MINUTE, 5, None, PEOPLE),
        (FAILED, 9 * DAY, 6, None, LEAVE),
        # A cancelled run: people see it after a day, unless the row has a date that is to come.
        (CANCELLED, DAY - SECOND, 0, None, LEAVE),
        (CANCELLED, DAY, 0, None, PEOPLE),
        (CANCELLED, DAY, 6, None, LEAVE),
        (CANCELLED, 6 * DAY, 0, False, LEAVE),
        # A date that has passed is acted on, though people have the case.
        (CANCELLED, 5 * MINUTE - SECOND, 0, True, LEAVE),
        (CANCELLED, 5 * MINUTE, 0, True, RING),
        (FAILED, DAY - SECOND, 6, True, LEAVE),
        (FAILED, DAY, 6, True, RING),
    ],
)
def test_care_for_rows_that_wait(
    last_run: LastRun, quiet_for: timedelta, rings: int, overdue: bool | None, care: Care
) -> None:
    assert decide_care(last_run, quiet_for, rings, overdue) is care


def test_a_cancel_that_stops_nothing_does_not_count() -> None:
    assert decide_care(CANCELLED, 0 * HOUR, 0, cancel_counts=False) is RING
