"""Refunds that waited for a manager only because of draft mode, and what managers made of them."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.draft_figures import DraftedRefund
from mailagent.domain.policy import ManagerReason
from mailagent.domain.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.database import Row

_refunds, _approvals, _decisions = schema.refunds, schema.approvals, schema.decisions

_OUTCOMES = {
    RefundStatus.AWAITING_APPROVAL.value: "waiting",
    RefundStatus.REJECTED.value: "rejected",
    RefundStatus.EXPIRED.value: "expired",
    RefundStatus.WITHDRAWN.value: "withdrawn",
}


def list_since(connection: sa.Connection, since: datetime, limit: int) -> list[DraftedRefund]:
    """Return the newest of these refunds that were asked for since a time."""
    reasons = sa.cast(_refunds.c.policy_reasons, sa.Text)
    rows = connection.execute(
        sa.select(
            _refunds.c.reason,
            _refunds.c.currency,
            _refunds.c.amount_minor,
            _refunds.c.status,
            _decisions.c.amount_minor.label("lowered_to"),
        )
        .join(_approvals, _approvals.c.refund_id == _refunds.c.refund_id)
        .outerjoin(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
        .where(
            _refunds.c.requested_at >= since,
            reasons.contains(f'"{ManagerReason.DRAFT_MODE.value}"'),
        )
        .order_by(_refunds.c.requested_at.desc())
        .limit(limit)
    )
    return [
        DraftedRefund(row.reason, row.currency, row.amount_minor, _outcome(row)) for row in rows
    ]


def _outcome(row: Row) -> str:
    approved = "approved" if row.lowered_to is None else "lowered"
    return _OUTCOMES.get(row.status, approved)
