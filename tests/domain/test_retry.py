"""When a mail that did not simply go out is sent again, waited for, or given up."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from mailagent.domain.mail import OutboundStatus
from mailagent.domain.retry import (
    MAIL_IS_STALE_AFTER,
    MailState,
    SendNow,
    Settle,
    Settled,
    WaitFor,
    backoff_seconds,
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
) -> MailState:
    return MailState(status, created_at, sending_at, next_attempt_at, accepted)


QUEUED, SENDING, SENT = OutboundStatus.QUEUED, OutboundStatus.SENDING, OutboundStatus.SENT
MINUTE = timedelta(seconds=60)


@pytest.mark.parametrize(
    ("mail", "wired", "expected"),
    [
        (state(QUEUED), True, SendNow()),
        (state(QUEUED, next_attempt_at=NOW), True, SendNow()),
        (state(QUEUED, next_attempt_at=NOW + SECOND), True, WaitFor(1)),
        (state(QUEUED, created_at=NOW - MAIL_IS_STALE_AFTER + SECOND), True, SendNow()),
        (state(QUEUED, created_at=NOW - MAIL_IS_STALE_AFTER), True, Settle(OutboundStatus.FAILED)),
        (state(SENDING, sending_at=NOW), True, WaitFor(60)),
        (state(SENDING, sending_at=NOW - MINUTE + SECOND), True, WaitFor(1)),
        (state(SENDING, sending_at=NOW - MINUTE), True, Settle(QUEUED)),
        (state(SENDING, sending_at=NOW - MINUTE), False, Settle(OutboundStatus.UNKNOWN)),
        (state(SENDING, sending_at=NOW, accepted=True), True, Settle(SENT)),
        (state(QUEUED, accepted=True), True, Settle(SENT)),
        (state(SENT), True, Settled()),
        (state(OutboundStatus.FAILED, accepted=True), True, Settled()),
        (state(OutboundStatus.UNKNOWN), True, Settled()),
    ],
)
def test_what_to_do_about_a_mail(
    mail: MailState, wired: bool, expected: SendNow | WaitFor | Settle | Settled
) -> None:
    assert decide_delivery(mail, NOW, 60, wired) == expected


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 5), (2, 10), (3, 20), (10, 2560), (11, 3600), (10_000, 3600)]
)
def test_back_off_doubles_up_to_an_hour(attempt: int, seconds: float) -> None:
    assert backoff_seconds(attempt) == seconds
