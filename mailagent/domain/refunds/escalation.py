"""Decides which manager to ask or remind about a refund that awaits approval, and when.

Each manager who was asked may decide, even after we have asked another one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mailagent.domain.shop import Waits, person_of

MOST_REMINDERS = 3


class Question(StrEnum):
    """What we ask a manager for: the approval, or the second of two approvals (`four_eyes`)."""

    APPROVE = "approve"
    COUNTERSIGN = "countersign"


class Skip(StrEnum):
    """Why we no longer wait for a manager who was asked."""

    UNDELIVERED = "our mail did not reach them"
    AWAY = "an automatic answer came from them"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to one manager. `skipped_why`: why we no longer wait for this manager; None while we do.
    `reply_token`: the manager can decide by a mail to its address."""

    approval_id: str
    question: Question
    manager_email: str
    reply_token: str
    asked_at: datetime
    reminders: int = 0
    reminded_at: datetime | None = None
    skipped_at: datetime | None = None
    skipped_why: str | None = None

    @property
    def stands(self) -> bool:
        """Whether we still wait for this manager."""
        return self.skipped_at is None

    @property
    def last_mail_at(self) -> datetime:
        return self.reminded_at or self.asked_at


@dataclass(frozen=True, slots=True)
class Due:
    """The manager to `ask` now, the managers to `remind` now, and when to look again (`next_at`).

    `following`: the manager whom we ask at `escalates_at` unless a manager decides before; None if none is
    left. `escalates_at`: None if the refund expires before.
    """

    ask: str | None
    remind: tuple[str, ...]
    next_at: datetime
    following: str | None = None
    escalates_at: datetime | None = None


def list_candidates(managers: Sequence[str], besides: Collection[str]) -> tuple[str, ...]:
    """Return the managers who may decide, in order of escalation. `besides`: the addresses of people who may
    not: the order's customer, those who asked for the refund, and the manager of the first approval."""
    people = {person_of(each) for each in besides}
    return tuple(dict.fromkeys(each for each in managers if person_of(each) not in people))


def decide_due(
    requests: Sequence[ApprovalRequest],
    candidates: Sequence[str],
    away: Collection[str],
    waits: Waits,
    expires_at: datetime,
    now: datetime,
) -> Due:
    """Decide what is due while a refund awaits approval.

    `requests`: the requests with the same question, oldest first. `candidates`: the managers who may decide, in
    order of escalation. `away`: the absent managers.
    """
    following = find_next(requests, candidates, away)
    waiting = [each for each in requests if each.stands]
    escalates_at = None
    if following and requests:
        escalates_at = max(each.asked_at for each in requests) + waits.approval_escalation
    ask = following if not waiting or (escalates_at and now >= escalates_at) else None
    if not waiting and not following:
        # All were skipped and none is left: remind the first one after all.
        waiting = list(requests[:1])
    dates, remind = [expires_at], []
    for request in waiting:
        if request.reminders >= MOST_REMINDERS:
            continue
        reminder_at = request.last_mail_at + waits.approval_reminder
        if now < reminder_at:
            dates.append(reminder_at)
            continue
        remind.append(request.manager_email)
        if request.reminders + 1 < MOST_REMINDERS:
            dates.append(now + waits.approval_reminder)
    if escalates_at and escalates_at >= expires_at:
        escalates_at = None  # The refund is closed by then.
    if ask:
        dates += [now + waits.approval_reminder, now + waits.approval_escalation]
    elif escalates_at:
        dates.append(escalates_at)
    return Due(ask, tuple(remind), min(dates), following, escalates_at)


def find_next(
    requests: Sequence[ApprovalRequest], candidates: Sequence[str], away: Collection[str]
) -> str | None:
    """Return the next manager to ask: the first of those not yet asked who is not absent. If all are absent,
    return the first of them, but only if we wait for no other manager. None if no manager is left."""
    asked = {each.manager_email for each in requests}
    left = [each for each in candidates if each not in asked]
    present = [each for each in left if each not in away]
    if present:
        return present[0]
    return left[0] if left and not any(each.stands for each in requests) else None
