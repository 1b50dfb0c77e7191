"""Who decides next on a refund that waits: asked, reminded, passed over. Each is a row, a mail and a line
of the audit trail in one transaction; the caller holds the refund's lock."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.escalation import (
    ApprovalRequest,
    Due,
    Question,
    Skip,
    decide_due,
    list_candidates,
)
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.store import audit
from mailagent.store.refunds import approval_requests as requests
from mailagent.store.refunds import approvals, cases, refunds
from mailagent.store.refunds.approval_requests import Note
from mailagent.store.refunds.approvals import Approval, RecordedDecision, Standing

REQUESTS = {Question.APPROVE: "approval_request", Question.COUNTERSIGN: "countersign_request"}


@dataclass(frozen=True, slots=True)
class Asking:
    """A question that waits: who may answer it, who was asked, who is away, and what is due. `first`: the
    first of two approvals, where the second is what is asked for. `owners`: whose order and request it is.
    `notes`: what managers noted on it, the oldest first."""

    approval: Approval
    first: RecordedDecision | None
    question: Question
    owners: tuple[str, ...]
    candidates: tuple[str, ...]
    requests: tuple[ApprovalRequest, ...]
    notes: tuple[Note, ...]
    away: Collection[str]
    due: Due

    @property
    def instead(self) -> str | None:
        """Who is to be asked instead of those who were passed over; None while somebody is waited for, or
        when nobody is left."""
        return None if any(each.stands for each in self.requests) else self.due.following


def look(
    connection: sa.Connection,
    refund: Refund,
    standing: Standing | None = None,
    owners: tuple[str, ...] | None = None,
) -> Asking:
    """Return how things stand with a refund that waits. `standing` and `owners`: its own, where somebody has
    just read them. Raises LookupError when it has no approval."""
    live = services.current()
    standing = standing or approvals.find_standing_of_refund(connection, refund.refund_id)
    if standing is None:
        raise LookupError(f"refund {refund.refund_id} waits for a manager but has no approval")
    approval, first = standing.approval, standing.first
    question = Question.COUNTERSIGN if first else Question.APPROVE
    owners = cases.list_owners(connection, refund) if owners is None else owners
    besides = (*owners, first.decided_by) if first else owners
    candidates = list_candidates(live.shop.manager_emails, besides)
    approval_id = approval.approval_id
    recorded = requests.list_of(connection, approval_id, question)
    notes, away = (
        requests.list_notes(connection, approval_id),
        requests.list_away(connection, live.now()),
    )
    # Whoever decides no more is not waited for.
    asked = tuple(each for each in recorded if each.manager_email in candidates)
    due = _decide_due(approval, candidates, asked, away)
    return Asking(approval, first, question, owners, candidates, asked, notes, away, due)


def _decide_due(
    approval: Approval,
    candidates: tuple[str, ...],
    asked: tuple[ApprovalRequest, ...],
    away: Collection[str],
) -> Due:
    live = services.current()
    return decide_due(asked, candidates, away, live.waits, approval.expires_at, live.now())


def _with_ask(before: Asking, ask: ApprovalRequest) -> Asking:
    """Return how things stand after an ask was written. Nothing else has changed: the caller has held the
    refund's lock all the time."""
    if ask.manager_email not in before.candidates:
        return before
    others = (each for each in before.requests if each.manager_email != ask.manager_email)
    asked = tuple(sorted((*others, ask), key=lambda each: (each.asked_at, each.manager_email)))
    due = _decide_due(before.approval, before.candidates, asked, before.away)
    return replace(before, requests=asked, due=due)


def is_one_of(owners: tuple[str, ...], manager: str) -> bool:
    """Whether a manager is one of the people whose order and request it is: they would decide on their own
    money."""
    return person_of(manager) in {person_of(each) for each in owners}


def request_key(approval: Approval, question: Question, manager: str) -> str:
    """Return under which key the request to one manager is written: once."""
    return f"{REQUESTS[question]}:{approval.approval_id}:{manager}"


def record_ask(
    connection: sa.Connection, refund: Refund, asking: Asking, manager: str
) -> tuple[ApprovalRequest, Asking]:
    """Record that a manager is asked now; who was asked already stays as they are. Returns the ask, and how
    things stand then."""
    known = next((each for each in asking.requests if each.manager_email == manager), None)
    if known:
        return known, asking
    now = services.current().now()
    details = {"manager": manager, "question": asking.question.value}
    audit.record(connection, now, audit.CLOCK, "manager asked", refund.refund_id, details)
    ask = requests.record(connection, asking.approval.approval_id, asking.question, manager, now)
    return ask, _with_ask(asking, ask)


def record_reminder(connection: sa.Connection, asking: Asking, ask: ApprovalRequest) -> Asking:
    """Record that a manager is reminded now. Returns how things stand then."""
    return _with_ask(asking, requests.record_reminder(connection, ask, services.current().now()))


def pass_over(connection: sa.Connection, refund: Refund, manager: str, why: Skip) -> Asking:
    """Record that a manager is not waited for. Returns how things stand then."""
    asking, now = look(connection, refund), services.current().now()
    for ask in asking.requests:
        if ask.manager_email == manager and ask.stands:
            asking = _with_ask(asking, requests.record_skip(connection, ask, why.value, now))
            details = {"manager": manager, "why": why.value}
            audit.record(
                connection, now, audit.CLOCK, "manager passed over", refund.refund_id, details
            )
    return asking


def is_waited_for(connection: sa.Connection, refund_id: str) -> bool:
    """Whether a refund waits and somebody was asked who is there to answer."""
    refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return False
    return any(each.stands for each in look(connection, refund).requests)
