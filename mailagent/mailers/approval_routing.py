"""Which managers are asked, reminded or skipped while a refund waits for a decision. Lock the refund first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.money import read_money
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
from mailagent.store.refunds import approvals, external_refunds, refunds, reviews
from mailagent.store.refunds.approvals import Approval, Note, RecordedDecision, Standing


@dataclass(frozen=True, slots=True)
class Routing:
    """Who may decide, who was asked, and who is absent, at `now`.

    `first` is the first of two approvals, if we ask for the second. `owners`: the people who must not
    decide, as in `Review.owners`. `candidates`: the managers who may decide. `requests`
    and `notes` are oldest first. `away`: the managers who are absent.
    """

    approval: Approval
    first: RecordedDecision | None
    question: Question
    owners: tuple[str, ...]
    candidates: tuple[str, ...]
    requests: tuple[ApprovalRequest, ...]
    notes: tuple[Note, ...]
    away: Collection[str]
    now: datetime

    @property
    def due(self) -> Due:
        waits, expires_at = services.current().waits, self.approval.expires_at
        return decide_due(self.requests, self.candidates, self.away, waits, expires_at, self.now)

    @property
    def instead(self) -> str | None:
        """The manager to ask in place of skipped ones; None while we wait for one, or if none is left."""
        return None if any(each.stands for each in self.requests) else self.due.following

    def with_request(self, request: ApprovalRequest) -> Routing:
        """Return the routing with a request added or changed."""
        if request.manager_email not in self.candidates:
            return self
        others = [each for each in self.requests if each.manager_email != request.manager_email]
        requests = sorted((*others, request), key=lambda each: (each.asked_at, each.manager_email))
        return replace(self, requests=tuple(requests))


def load_routing(
    connection: sa.Connection,
    refund: Refund,
    standing: Standing | None = None,
    owners: tuple[str, ...] | None = None,
) -> Routing:
    """Return the routing of a refund that waits; pass `standing` and `owners` if you have read them.

    Raises LookupError if the refund has no approval.
    """
    live = services.current()
    standing = standing or approvals.load_standing_of_refund(connection, refund.refund_id)
    approval, first = standing.approval, standing.first
    question = Question.COUNTERSIGN if first else Question.APPROVE
    owners = owners or reviews.list_owners(connection, refund)
    besides = (*owners, first.decided_by) if first else owners
    candidates = list_candidates(live.shop.manager_emails, besides)
    asked = approvals.list_requests_for(connection, approval.approval_id, question)
    now = live.now()
    return Routing(
        approval,
        first,
        question,
        owners,
        candidates,
        # We do not wait for a manager who may no longer decide.
        tuple(each for each in asked if each.manager_email in candidates),
        approvals.list_notes(connection, approval.approval_id),
        approvals.list_away(connection, now),
        now,
    )


def is_one_of(owners: tuple[str, ...], manager: str) -> bool:
    """Return whether a manager would decide on their own order or request."""
    return person_of(manager) in {person_of(each) for each in owners}


def is_waited_for(connection: sa.Connection, refund_id: str) -> bool:
    """Return whether a refund waits for a manager who was asked and not skipped."""
    refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return False
    return any(each.stands for each in load_routing(connection, refund).requests)


def record_request(
    connection: sa.Connection, refund: Refund, routing: Routing, manager: str
) -> ApprovalRequest:
    """Record that a manager is asked now; return the stored request if there is one."""
    known = [each for each in routing.requests if each.manager_email == manager]
    if known:
        return known[0]
    now = services.current().now()
    details = describe_request(connection, refund, routing.question, manager)
    audit.record(connection, now, audit.CLOCK, audit.MANAGER_ASKED, refund.refund_id, details)
    approval_id = routing.approval.approval_id
    return approvals.record_request(connection, approval_id, routing.question, manager, now)


def describe_request(
    connection: sa.Connection, refund: Refund, question: Question, manager: str
) -> dict[str, str]:
    """Return, for the audit, what a manager is asked or reminded of, and what they are told then."""
    elsewhere = external_refunds.given_back(connection, refund.order_id, refund.amount.currency)
    return {"manager": manager, "question": question.value, "elsewhere": str(elsewhere)}


def told_elsewhere(
    connection: sa.Connection, refund: Refund, question: Question, manager: str
) -> int:
    """Return how much was refunded elsewhere as the newest request or reminder told a manager, in minor units;
    0 if none told it."""
    this = {"manager": manager, "question": question.value}.items()
    asked = audit.list_details(
        connection, refund.refund_id, audit.MANAGER_ASKED, audit.MANAGER_REMINDED
    )
    told = [each["elsewhere"] for each in asked if this <= each.items() and "elsewhere" in each]
    return read_money(told[-1]).minor if told else 0


def skip(connection: sa.Connection, refund: Refund, manager: str, why: Skip) -> Routing:
    """Record that we no longer wait for a manager, and why. Return the routing after that."""
    routing, now = load_routing(connection, refund), services.current().now()
    for request in routing.requests:
        if request.manager_email == manager and request.stands:
            skipped = approvals.record_skip(connection, request, why.value, now)
            routing = routing.with_request(skipped)
            details = {"manager": manager, "why": why.value}
            audit.record(
                connection, now, audit.CLOCK, "manager passed over", refund.refund_id, details
            )
    return routing
