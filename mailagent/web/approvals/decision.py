"""A manager's decision as rows: the only one, or with four eyes the first and the second.

The order and the refund are locked by the caller, and its run is woken in the same transaction.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.run_about import hash_customer
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.engine import REFUND, run_id_of
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store import audit
from mailagent.store.refunds import approvals, refunds
from mailagent.store.refunds.approvals import Approval, RecordedDecision, Standing
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals import case_view
from mailagent.web.approvals.decision_form import Form, FormProblem


def is_open(refund: Refund, approval: Approval) -> bool:
    """Whether a decision may still be made. The date counts, not whether the run has seen it."""
    waits = refund.status is RefundStatus.AWAITING_APPROVAL
    return waits and services.current().now() < approval.expires_at


# A mailed link stays in mailboxes for years; what customers wrote and sent is on its page no longer than this.
CASE_SHOWN = timedelta(days=7)


def shows_case(refund: Refund, approval: Approval) -> bool:
    """Whether links still show the case: while it is open, and for a week after it was closed."""
    closed_at = refund.decided_at or approval.expires_at
    return is_open(refund, approval) or services.current().now() < closed_at + CASE_SHOWN


OWN = "This is your own order; somebody else decides on it."


def is_by(manager: str, first: RecordedDecision | None) -> bool:
    """Whether the first decision is this person's."""
    return first is not None and person_of(first.decided_by) == person_of(manager)


def find_missing_first(first: RecordedDecision | None) -> str | None:
    """Return why a second approval is not enough: whoever gave the first is no manager any more. None
    where nothing is wrong with it."""
    if first is None or first.decided_by in services.current().shop.manager_emails:
        return None
    return (
        f"{first.decided_by} approved this, but does not decide on refunds any more, so that approval"
        " does not count. Please reject the request, or first have the address put back into"
        " MANAGER_EMAILS."
    )


def take(
    connection: sa.Connection, manager: str, standing: Standing, case: Case, form: Form
) -> Standing:
    """Check what a manager decided against what is so by now, and record it; return what is decided then.
    `standing` and `case`: read since the refund's order was locked.

    Raises FormProblem for a refund of the manager's own, for more than is left, and for a second approval
    to a first that does not count.
    """
    if is_one_of(case.owners, manager):
        raise FormProblem("decision", OWN)
    case_view.check(case, form)
    check_first(standing.first, form)
    return record(connection, manager, standing, case, form)


def check_first(first: RecordedDecision | None, form: Form) -> None:
    """Raise FormProblem for an approval that would be the second to one that does not count."""
    missing = find_missing_first(first)
    if form.approves and missing:
        raise FormProblem("decision", missing)


def record(
    connection: sa.Connection, manager: str, standing: Standing, case: Case, form: Form
) -> Standing:
    """Record what a manager decided; where somebody was faster, nothing. Return what is decided then."""
    approval, refund = standing.approval, case.refund
    decision = RecordedDecision(
        approval_id=approval.approval_id,
        decision="approve" if form.approves else "reject",
        decided_by=manager,
        decided_at=services.current().now(),
        amount_minor=form.amount.minor if form.amount else None,
        note=form.note,
        note_shared=form.note_shared,
        mail_id=form.mail_id,
    )
    if approvals.record_decision(connection, decision):
        if form.amount is not None:
            refunds.lower_amount(connection, refund, form.amount)
        if refund.four_eyes and form.approves:
            approval = _await_second(connection, approval, refund, decision, form)
        else:
            _conclude(connection, case, decision, form, {})
        return replace(standing, approval=approval, first=decision)
    if standing.first is None:  # somebody has decided who did not lock the order
        standing = approvals.find_standing(connection, approval.approval_id) or standing
    first = standing.first
    if first is None or not refund.four_eyes or person_of(first.decided_by) == person_of(manager):
        return standing
    if approvals.record_countersignature(connection, decision):
        if form.amount is not None:
            refunds.lower_amount(connection, refund, form.amount)
        details = {"first_approved_by": first.decided_by}
        _conclude(connection, case, decision, form, details)
        return replace(standing, second=decision)
    return approvals.find_standing(connection, approval.approval_id) or standing


def _await_second(
    connection: sa.Connection,
    approval: Approval,
    refund: Refund,
    decision: RecordedDecision,
    form: Form,
) -> Approval:
    """Keep the refund waiting, for somebody else, with at least as much time as the first one had. Return the
    approval with its date."""
    live = services.current()
    expires_at = max(approval.expires_at, decision.decided_at + live.waits.approval_expiry)
    approvals.extend(connection, approval.approval_id, expires_at)
    details = {"second_by": expires_at.isoformat(timespec="seconds")}
    _audit(connection, refund, decision, form, "refund approved, second approval awaited", details)
    _enqueue(connection, refund, "countersign")
    return replace(approval, expires_at=expires_at)


def _conclude(
    connection: sa.Connection,
    case: Case,
    decision: RecordedDecision,
    form: Form,
    details: dict[str, str],
) -> None:
    refund = case.refund
    status = RefundStatus.APPROVED if form.approves else RefundStatus.REJECTED
    refunds.move(
        connection,
        refund,
        status,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        note=form.note,
        despite_cancel=form.approves and case.order.status is OrderStatus.CANCELLED,
        approved_for=_approved_for(case, form),
    )
    _audit(connection, refund, decision, form, f"refund {status.value}", details)
    _enqueue(connection, refund, "decided")


def _approved_for(case: Case, form: Form) -> str | None:
    is_known = form.approves and case.new_customer is not None
    return hash_customer(case.order.customer_email) if is_known else None


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
        {"amount": str(form.amount or refund.amount), "note": form.note}
        | ({} if form.note_shared or not form.note else {"note_for": "the shop only"})
        | ({"mail_id": form.mail_id} if form.mail_id else {})
        | details,
    )


def _enqueue(connection: sa.Connection, refund: Refund, why: str) -> None:
    asked_by = refund.run_id or run_id_of(REFUND, refund.refund_id)
    client = services.current().workflow_client
    run_id = client.queue.enqueue_refund(connection, refund.refund_id, asked_by, why)
    if run_id != refund.run_id:  # the refund is locked: nobody else has claimed it since
        refunds.claim(connection, refund.refund_id, run_id)
