"""What has been decided on a refund, in sentences for the managers who were asked."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store.refunds import approvals
from mailagent.store.refunds.approvals import Approval, RecordedDecision
from mailagent.web.approvals import decision


def describe(connection: sa.Connection, approval: Approval, refund: Refund) -> list[str]:
    """Return how a refund stands, a sentence each: who decided what and when, or why nobody can."""
    made = approvals.list_decisions(connection, refund.refund_id)
    lines = [_of(each, refund) for each in made]
    if refund.status is RefundStatus.WITHDRAWN:
        return [*lines, "The customer has withdrawn the request. There is nothing to decide."]
    if decision.is_open(refund, approval):
        waits = "A second manager has to approve it, too." if made else "Nobody has decided so far."
        return [*lines, f"{waits} It is closed without a refund at {_moment(approval.expires_at)}."]
    counts = len(made) - (refund.four_eyes and bool(made) and made[-1].approves)
    if refund.status is RefundStatus.EXPIRED or counts < 1:
        return [
            *lines,
            f"The date passed at {_moment(approval.expires_at)}: closed without a refund.",
        ]
    return lines


def _of(made: RecordedDecision, refund: Refund) -> str:
    verb = "approved" if made.approves else "rejected"
    lowered = made.amount_minor
    less = f", lowered to {Money(lowered, refund.amount.currency)}" if lowered is not None else ""
    return f"{made.decided_by} {verb} it on {_moment(made.decided_at)}{less}."


def _moment(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
