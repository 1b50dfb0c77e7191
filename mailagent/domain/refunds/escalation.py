"""Who is asked to decide on a refund that waits, who is reminded, and when that is looked at next.

Pure. Whoever was asked keeps the right to decide; asking somebody else takes it from nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mailagent.domain.shop import Waits, person_of

MOST_REMINDERS = 3


class Question(StrEnum):
    """What a manager is asked: to approve, or to be the second who does."""

    APPROVE = "approve"
    COUNTERSIGN = "countersign"


class Skip(StrEnum):
    """Why somebody who was asked is not waited for."""

    UNDELIVERED = "our mail did not reach them"
    AWAY = "an automatic answer came from them"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One manager who was asked one question. `skipped_why` is set where others are asked instead."""

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
        """Whether the manager is waited for."""
        return self.skipped_at is None

    @property
    def heard_at(self) -> datetime:
        """When we last wrote to the manager about it."""
        return self.reminded_at or self.asked_at


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done now: a manager to `ask`, managers to `remind`; and when to look again.
    `following` is asked at `escalates_at` if nobody decides before; None when nobody is left, or the
    question is closed by then."""

    ask: str | None
    remind: tuple[str, ...]
    next_at: datetime
    following: str | None = None
    escalates_at: datetime | None = None


def list_candidates(managers: Sequence[str], besides: Collection[str]) -> tuple[str, ...]:
    """Return the managers who may answer a question, in order of escalation: those who are other people
    than `besides`, the addresses of whoever has approved already and of whose order it is."""
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
    """Decide what is due while a question waits for its answer.

    `asks` are those of this question, the oldest first; `candidates` are the managers who may answer
    it, in order of escalation; `away` are those known not to read mail now.
    """
    following = find_next(requests, candidates, away)
    ask = following if following and _is_escalation_due(requests, waits, now) else None
    remindable = [
        each for each in _waited_for(requests, following) if each.reminders < MOST_REMINDERS
    ]
    remind = [each for each in remindable if now >= each.heard_at + waits.approval_reminder]
    dates = [expires_at]
    dates += [
        (now if each in remind else each.heard_at) + waits.approval_reminder
        for each in remindable
        if each not in remind or each.reminders + 1 < MOST_REMINDERS
    ]
    if ask:
        dates += [now + waits.approval_reminder, now + waits.approval_escalation]
    escalates_at = _escalates_at(requests, waits) if following and requests else None
    if escalates_at and escalates_at >= expires_at:
        escalates_at = None  # nobody is asked about what is closed by then
    if escalates_at and not ask:
        dates.append(escalates_at)
    names = tuple(each.manager_email for each in remind)
    return Due(ask, names, min(dates), following, escalates_at)


def find_next(
    requests: Sequence[ApprovalRequest], candidates: Sequence[str], away: Collection[str]
) -> str | None:
    """Return who is asked after those who were: the first who is not away; if all are, the first all
    the same, as long as nobody is waited for. None when nobody is left."""
    asked = {each.manager_email for each in requests}
    left = [each for each in candidates if each not in asked]
    present = [each for each in left if each not in away]
    if present:
        return present[0]
    return left[0] if left and not any(each.stands for each in requests) else None


def _is_escalation_due(requests: Sequence[ApprovalRequest], waits: Waits, now: datetime) -> bool:
    return not any(each.stands for each in requests) or now >= _escalates_at(requests, waits)


def _escalates_at(requests: Sequence[ApprovalRequest], waits: Waits) -> datetime:
    return max(each.asked_at for each in requests) + waits.approval_escalation


def _waited_for(
    requests: Sequence[ApprovalRequest], following: str | None
) -> Sequence[ApprovalRequest]:
    """Return whom to remind: where all were passed over and nobody is left, the first one after all."""
    standing = [each for each in requests if each.stands]
    return standing or ([] if following else requests[:1])
