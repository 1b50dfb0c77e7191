"""A manager's decision as rows: the only one, or with four eyes the first and the second.

The refund is locked by the caller, and its run is rung in the same transaction.
"""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.doorbell import REFUND, run_id_of
from mailagent.store import approvals, audit, refunds
from mailagent.store.approvals import Approval, RecordedDecision
from mailagent.web.decision_form import Form


def record(
    connection: sa.Connection, manager: str, approval: Approval, refund: Refund, form: Form
) -> None:
    """Record what a manager decided; where somebody was faster, nothing: the page will say who."""
    decision = RecordedDecision(
        approval_id=approval.approval_id,
        decision="approve" if form.approves else "reject",
        decided_by=manager,
        decided_at=services.current().now(),
        amount_minor=form.amount.minor if form.amount else None,
        note=form.note,
    )
    if approvals.record_decision(connection, decision):
        if form.amount is not None:
            refunds.lower_amount(connection, refund, form.amount)
        if refund.four_eyes and form.approves:
            _await_second(connection, approval, refund, decision, form)
        else:
            _conclude(connection, refund, decision, form, {})
        return
    first = approvals.find_decision(connection, approval.approval_id)
    if first is None or not refund.four_eyes or first.decided_by == manager:
        return
    if approvals.record_countersignature(connection, decision):
        if form.amount is not None:
            refunds.lower_amount(connection, refund, form.amount)
        _conclude(connection, refund, decision, form, {"first_approved_by": first.decided_by})


def _await_second(
    connection: sa.Connection,
    approval: Approval,
    refund: Refund,
    decision: RecordedDecision,
    form: Form,
) -> None:
    """Keep the refund waiting, for somebody else, with at least as much time as the first one had."""
    live = services.current()
    expires_at = max(approval.expires_at, decision.decided_at + live.waits.approval_expiry)
    approvals.extend(connection, approval.approval_id, expires_at)
    details = {"second_by": expires_at.isoformat(timespec="seconds")}
    _audit(connection, refund, decision, form, "refund approved, second approval awaited", details)
    _ring(connection, refund, "countersign")


def _conclude(
    connection: sa.Connection,
    refund: Refund,
    decision: RecordedDecision,
    form: Form,
    details: dict[str, str],
) -> None:
    status = RefundStatus.APPROVED if form.approves else RefundStatus.REJECTED
    refunds.move(
        connection,
        refund,
        status,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        note=form.note,
    )
    _audit(connection, refund, decision, form, f"refund {status.value}", details)
    _ring(connection, refund, "decided")


def _audit(
    connection: sa.Connection,
    refund: Refund,
    decision: RecordedDecision,
    form: Form,
    action: str,
    details: dict[str, str],
) -> None:
    audit.record(
        connection,
        decision.decided_at,
        decision.decided_by,
        action,
        refund.refund_id,
        {"amount": str(form.amount or refund.amount), "note": form.note} | details,
    )


def _ring(connection: sa.Connection, refund: Refund, why: str) -> None:
    asked_by = refund.run_id or run_id_of(REFUND, refund.refund_id)
    bell = services.current().doorbell
    run_id = bell.ring_refund(connection, refund.refund_id, asked_by, why)
    refunds.claim(connection, refund.refund_id, run_id)
