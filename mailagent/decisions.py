"""What managers' decisions do to a refund, once they can be taken back no more. Lock the order and the refund
first. The page and the refund's workflow both come here: the one after a click, the other after the wait."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store.refunds import refunds
from mailagent.store.refunds.approvals import RecordedDecision, Standing


def settle(connection: sa.Connection, refund: Refund, standing: Standing) -> Refund:
    """Give each decision its effect, unless it can still be taken back; return the refund then. Again, this
    changes nothing."""
    now = services.current().now()
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return refund
    for each in (standing.first, standing.second):
        if each is not None and not each.can_be_undone(now):
            _lower(connection, refund, each)
    final = standing.final(refund.four_eyes)
    if final is not None and not final.can_be_undone(now):
        _conclude(connection, refund, final)
    return refunds.load(connection, refund.refund_id)


def _lower(connection: sa.Connection, refund: Refund, decision: RecordedDecision) -> None:
    if decision.amount_minor is not None:
        amount = Money(decision.amount_minor, refund.amount.currency)
        quantities = {int(line_no): units for line_no, units in decision.quantities.items()}
        refunds.lower(connection, refund, amount, quantities)


def _conclude(connection: sa.Connection, refund: Refund, decision: RecordedDecision) -> None:
    refunds.move(
        connection,
        refund,
        RefundStatus.APPROVED if decision.approves else RefundStatus.REJECTED,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        note=decision.note,
        despite_cancel=refund.despite_cancel or decision.despite_cancel,
        approved_for=decision.approved_for,
    )
