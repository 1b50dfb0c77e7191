"""What is due while a refund waits for a manager: by dates, never twice, and never for nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mailagent.domain.refunds.escalation import (
    ApprovalRequest,
    Question,
    Skip,
    decide_due,
    find_next,
)
from mailagent.domain.shop import Waits
from tests.cast import MAX, MONA, NOW

ZOE = "zoe@shop.example"
THREE = (MONA, MAX, ZOE)
EXPIRES_AT = NOW + timedelta(days=7)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SECOND = timedelta(seconds=1)


def ask(manager: str, after: timedelta = timedelta(0), **changes: Any) -> ApprovalRequest:
    values: dict[str, Any] = {"reply_token": manager, "asked_at": NOW + after} | changes
    return ApprovalRequest("approval_1", Question.APPROVE, manager, **values)


def reminded(manager: str, times: int, at: timedelta) -> ApprovalRequest:
    return replace(ask(manager), reminders=times, reminded_at=NOW + at)


def skipped(manager: str, after: timedelta = timedelta(0)) -> ApprovalRequest:
    return ask(manager, after, skipped_at=NOW + after, skipped_why=Skip.AWAY.value)


def due(
    *requests: ApprovalRequest, after: timedelta, away: tuple[str, ...] = (), **changes: Any
) -> Any:
    values: dict[str, Any] = {"candidates": THREE, "waits": Waits()} | changes
    now = NOW + after
    return decide_due(requests, away=away, expires_at=EXPIRES_AT, now=now, **values)


@pytest.mark.parametrize(
    ("requests", "after", "asked", "told_again"),
    [
        ((), 0 * HOUR, MONA, ()),
        ((ask(MONA),), 0 * HOUR, None, ()),
        ((ask(MONA),), DAY - SECOND, None, ()),
        ((ask(MONA),), DAY, None, (MONA,)),
        ((reminded(MONA, 1, DAY),), DAY, None, ()),
        ((reminded(MONA, 1, DAY),), 2 * DAY - SECOND, None, ()),
        ((reminded(MONA, 1, DAY),), 2 * DAY, MAX, (MONA,)),
        ((ask(MONA),), 2 * DAY - SECOND, None, (MONA,)),
        ((ask(MONA), ask(MAX, 2 * DAY)), 4 * DAY - SECOND, None, (MONA, MAX)),
        ((reminded(MONA, 3, 3 * DAY), ask(MAX, 2 * DAY)), 4 * DAY, ZOE, (MAX,)),
        ((reminded(MONA, 3, 3 * DAY),), 6 * DAY, MAX, ()),
        ((skipped(MONA),), 0 * HOUR, MAX, ()),
        ((skipped(MONA), ask(MAX)), DAY, None, (MAX,)),
        ((skipped(MONA), skipped(MAX), skipped(ZOE)), DAY, None, (MONA,)),
    ],
    ids=[
        "nobody asked", "just asked", "a second before the reminder", "at the reminder",
        "not twice", "a second before the next", "the next and once more", "late reminder",
        "two reminders", "the third", "no fourth reminder", "passed over", "the passed over sleeps",
        "nobody left",
    ],
)  # fmt: skip
def test_who_is_asked_and_reminded_when(
    requests: tuple[ApprovalRequest, ...],
    after: timedelta,
    asked: str | None,
    told_again: tuple[str, ...],
) -> None:
    found = due(*requests, after=after)
    assert (found.ask, found.remind) == (asked, told_again)
    assert NOW + after < found.next_at <= EXPIRES_AT  # it looks again, and not at once


@pytest.mark.parametrize(
    ("requests", "after", "next_after"),
    [
        ((ask(MONA),), 0 * HOUR, DAY),
        ((ask(MONA),), DAY, 2 * DAY),
        ((reminded(MONA, 3, DAY),), DAY, 2 * DAY),
        ((reminded(MONA, 3, DAY), reminded(MAX, 3, DAY), reminded(ZOE, 3, DAY)), DAY, 7 * DAY),
        ((), 0 * HOUR, DAY),
    ],
    ids=["the reminder", "the next manager", "no more reminders", "the expiry", "first"],
)
def test_it_is_looked_at_again_when_something_is_due(
    requests: tuple[ApprovalRequest, ...], after: timedelta, next_after: timedelta
) -> None:
    assert due(*requests, after=after).next_at == NOW + next_after


@pytest.mark.parametrize(
    ("requests", "away", "found"),
    [
        ((), (), MONA),
        ((), (MONA,), MAX),
        ((), THREE, MONA),
        ((ask(MONA),), (MAX,), ZOE),
        ((ask(MONA),), (MAX, ZOE), None),
        ((skipped(MONA),), THREE, MAX),
        ((ask(MONA), ask(MAX), ask(ZOE)), (), None),
        ((skipped(MONA), skipped(MAX), skipped(ZOE)), THREE, None),
    ],
)
def test_whoever_is_away_is_skipped_unless_nobody_is_there(
    requests: tuple[ApprovalRequest, ...], away: tuple[str, ...], found: str | None
) -> None:
    assert find_next(requests, THREE, away) == found


def test_a_single_manager_is_reminded_and_nobody_else_asked() -> None:
    found = due(ask(MONA), after=2 * DAY, candidates=(MONA,))
    assert (found.ask, found.remind, found.following) == (None, (MONA,), None)


def test_the_dates_come_from_the_settings() -> None:
    waits = Waits(approval_reminder_seconds=60, approval_escalation_seconds=90)
    then: datetime = NOW + timedelta(seconds=60)
    found = due(ask(MONA), after=then - NOW, waits=waits)
    assert found.remind == (MONA,)
    assert found.escalates_at == NOW + timedelta(seconds=90)
    assert found.next_at == found.escalates_at


@pytest.mark.parametrize(
    ("escalation", "promised"),
    [(7 * DAY - SECOND, NOW + 7 * DAY - SECOND), (7 * DAY, None), (9 * DAY, None)],
)
def test_nobody_is_promised_to_be_asked_about_what_is_closed_by_then(
    escalation: timedelta, promised: datetime | None
) -> None:
    waits = Waits(approval_escalation_seconds=int(escalation.total_seconds()))
    found = due(reminded(MONA, 3, DAY), after=DAY, waits=waits)
    assert found.next_at == (promised or EXPIRES_AT)
    assert found.escalates_at == promised
