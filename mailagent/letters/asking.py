"""Who decides next on a refund that waits: asked, reminded, passed over. Each is a row, a mail and a line
of the audit trail in one transaction; the caller holds the refund's lock."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.escalation import Ask, Due, Question, Skip, decide_due, list_candidates
from mailagent.domain.mail import OutboundStatus
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.store import approvals, asks, audit, cases, outbox, refunds
from mailagent.store.approvals import Approval, RecordedDecision

REQUESTS = {Question.APPROVE: "approval_request", Question.COUNTERSIGN: "countersign_request"}


@dataclass(frozen=True, slots=True)
class Asking:
    """A question that waits: who may answer it, who was asked, who is away, and what is due. `first`: the
    first of two approvals, where the second is what is asked for."""

    approval: Approval
    first: RecordedDecision | None
    question: Question
    candidates: tuple[str, ...]
    asks: tuple[Ask, ...]
    away: Collection[str]
    due: Due


def look(connection: sa.Connection, refund: Refund) -> Asking:
    """Return how things stand with a refund that waits. Raises LookupError when it has no approval."""
    live = services.current()
    approval = approvals.find_of_refund(connection, refund.refund_id)
    if approval is None:
        raise LookupError(f"refund {refund.refund_id} waits for a manager but has no approval")
    first = approvals.find_decision(connection, approval.approval_id)
    question = Question.COUNTERSIGN if first else Question.APPROVE
    owners = cases.list_owners(connection, refund)
    besides = (*owners, first.decided_by) if first else owners
    candidates = list_candidates(live.shop.manager_emails, besides)
    return _look_at_asks(connection, approval, first, question, candidates)


def look_again(connection: sa.Connection, before: Asking) -> Asking:
    """Return how things stand after somebody was asked, reminded or passed over. Nothing else has changed:
    the caller has held the refund's lock all the time."""
    return _look_at_asks(
        connection, before.approval, before.first, before.question, before.candidates
    )


def _look_at_asks(
    connection: sa.Connection,
    approval: Approval,
    first: RecordedDecision | None,
    question: Question,
    candidates: tuple[str, ...],
) -> Asking:
    live = services.current()
    # Whoever decides no more is not waited for.
    asked = tuple(
        each
        for each in asks.list_of(connection, approval.approval_id, question)
        if each.manager_email in candidates
    )
    away = asks.list_away(connection, live.now())
    due = decide_due(asked, candidates, away, live.waits, approval.expires_at, live.now())
    return Asking(approval, first, question, candidates, asked, away, due)


def is_own(connection: sa.Connection, refund: Refund, manager: str) -> bool:
    """Whether a manager would decide on their own money: the order is theirs, or they asked for it."""
    owners = cases.list_owners(connection, refund)
    return person_of(manager) in {person_of(each) for each in owners}


def remember_old(connection: sa.Connection, refund: Refund) -> Asking:
    """Make rows of whoever was asked before there were any: their mail says when, and what of it. Returns
    how things stand."""
    asking, found = look(connection, refund), False
    if asking.asks:
        return asking
    keys = {
        request_key(asking.approval, asking.question, manager): manager
        for manager in asking.candidates
    }
    mails = outbox.find_by_keys(connection, keys)
    for key, manager in keys.items():
        mail = mails.get(key)
        if mail is None:
            continue
        found = True
        ask = asks.record(
            connection, asking.approval.approval_id, asking.question, manager, mail.created_at
        )
        if OutboundStatus(mail.status).lost:
            asks.record_skip(connection, ask, Skip.UNDELIVERED, services.current().now())
    return look_again(connection, asking) if found else asking


def request_key(approval: Approval, question: Question, manager: str) -> str:
    """Return under which key the request to one manager is written: once."""
    return f"{REQUESTS[question]}:{approval.approval_id}:{manager}"


def record_ask(
    connection: sa.Connection, refund: Refund, asking: Asking, manager: str, now: datetime
) -> Ask:
    """Record that a manager is asked now; who was asked already stays as they are."""
    if not any(each.manager_email == manager for each in asking.asks):
        details = {"manager": manager, "question": asking.question.value}
        audit.record(connection, now, audit.CLOCK, "manager asked", refund.refund_id, details)
    return asks.record(connection, asking.approval.approval_id, asking.question, manager, now)


def pass_over(connection: sa.Connection, refund: Refund, manager: str, why: Skip) -> str | None:
    """Record that a manager is not waited for. Returns who is to be asked instead; None when somebody
    else is waited for already, or nobody is left."""
    live = services.current()
    asking = remember_old(connection, refund)
    for ask in asking.asks:
        if ask.manager_email == manager and ask.stands:
            asks.record_skip(connection, ask, why.value, live.now())
            details = {"manager": manager, "why": why.value}
            audit.record(
                connection,
                live.now(),
                audit.CLOCK,
                "manager passed over",
                refund.refund_id,
                details,
            )
    after = look_again(connection, asking)
    return None if any(each.stands for each in after.asks) else after.due.following


def is_waited_for(connection: sa.Connection, refund_id: str) -> bool:
    """Whether a refund waits and somebody was asked who is there to answer."""
    refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return False
    return any(each.stands for each in look(connection, refund).asks)
