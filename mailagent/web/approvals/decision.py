"""A manager's decision: the form, the checks, and the rows; with four eyes the first and the second.

Lock the order and the refund first. The decision and the wake-up of the refund's workflow are one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import sqlalchemy as sa
from flask import request

from mailagent import services
from mailagent.domain.amount_field import parse_typed_amount
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.money import Money
from mailagent.domain.operations.run_about import hash_customer
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.domain.text import without_controls
from mailagent.engine import REFUND, run_id_of
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store import audit
from mailagent.store.refunds import approvals, refunds
from mailagent.store.refunds.approvals import Approval, RecordedDecision, Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals.review_facts import balance_of
from mailagent.web.form import FormProblem

LONGEST_NOTE = 2000
# Mailed links stay in mailboxes for years: how long their page shows what the customer wrote and sent.
SHOWN_AFTER_CLOSING = timedelta(days=7)

OWN = "This is your own order; somebody else decides on it."


def is_open(refund: Refund, approval: Approval) -> bool:
    """Return whether a decision may still be made; the date counts, not when the workflow notices it."""
    waits = refund.status is RefundStatus.AWAITING_APPROVAL
    return waits and services.current().now() < approval.expires_at


def shows_details(refund: Refund, approval: Approval) -> bool:
    """Return whether links still show details: while the refund waits, and for a week after it closed."""
    closed_at = refund.decided_at or approval.expires_at
    return services.current().now() < closed_at + SHOWN_AFTER_CLOSING or is_open(refund, approval)


def is_by(manager: str, first: RecordedDecision | None) -> bool:
    return first is not None and person_of(first.decided_by) == person_of(manager)


def find_missing_first(first: RecordedDecision | None) -> str | None:
    """Return why the first approval does not count: its manager is no longer one. None if it counts."""
    if first is None or first.decided_by in services.current().shop.manager_emails:
        return None
    return (
        f"{first.decided_by} approved this, but does not decide on refunds any more, so that approval"
        " does not count. Please reject the request, or first have the address put back into"
        " MANAGER_EMAILS."
    )


# --- form -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """What a manager decided. `amount` is set for a lower amount; `note_shared`: the customer gets the note.

    `knows_cancelled` and `knows_customer` say what the page told the manager: that the order was cancelled,
    and the order's new address. `mail_id` is the manager's reply, if the decision came by mail.
    """

    approves: bool
    amount: Money | None
    note: str | None
    knows_cancelled: bool = False
    knows_customer: str = ""
    note_shared: bool = True
    mail_id: str | None = None


def parse_form(refund: Refund, first: RecordedDecision | None) -> Form:
    """Return the decision in the request's form; `first` is the first of two approvals.

    Raises FormProblem, also for a page that was opened before the first approval was made.
    """
    decision = request.form.get("decision", "")
    if decision not in ("approve", "reject"):
        raise FormProblem("decision", "Please press Approve or Reject: the form did not say which.")
    if first is not None and request.form.get("first_decision") == "awaited":
        raise FormProblem(
            "decision",
            f"{first.decided_by} approved {refund.amount.tell()} while this page was open. What you decide"
            " now is the second decision.",
        )
    note = mask_card_numbers(typed("note"))
    if len(note) > LONGEST_NOTE:
        raise FormProblem(
            "note", f"The note is longer than {LONGEST_NOTE} characters. Please shorten it."
        )
    return Form(
        decision == "approve",
        _parse_amount(refund) if decision == "approve" else None,
        note or None,
        knows_cancelled=request.form.get("order_status") == "cancelled",
        knows_customer=request.form.get("order_customer", ""),
        note_shared=request.form.get("note_private") != "yes",
    )


def typed(field: str) -> str:
    """Return a form field without control characters and surrounding blanks."""
    return without_controls(request.form.get(field, "")).strip()


def _parse_amount(refund: Refund) -> Money | None:
    if not request.form.get("amount", ""):
        return None  # All of it. Blanks are refused below: they were meant as an amount.
    try:
        amount = parse_typed_amount(typed("amount"), refund.amount.currency)
    except ValueError as problem:
        raise FormProblem("amount", f"The amount cannot be read: {problem}") from None
    if not 0 < amount.minor <= refund.amount.minor:
        raise FormProblem(
            "amount", f"The amount must be above 0 and at most {refund.amount.tell()}."
        )
    return amount if amount != refund.amount else None


# --- record ---------------------------------------------------------------------------------------


def take(
    connection: sa.Connection, manager: str, standing: Standing, review: Review, form: Form
) -> Standing:
    """Check a decision and record it; return the decisions then. Read `standing` and `review` after locking
    the order.

    Raises FormProblem for the manager's own refund, for more than is left, for a change of the order that
    the page did not show, and for a second approval to a first that does not count.
    """
    if is_one_of(review.owners, manager):
        raise FormProblem("decision", OWN)
    if form.approves:
        _check_balance(review, form)
        missing = find_missing_first(standing.first)
        if missing:
            raise FormProblem("decision", missing)
    return _record(connection, manager, standing, review, form)


def _check_balance(review: Review, form: Form) -> None:
    balance = balance_of(review)
    wanted = form.amount or review.refund.amount
    if wanted.minor > balance.most.minor:
        field = "amount" if balance.most.minor else "decision"
        raise FormProblem(field, f"{wanted} cannot be approved. {balance.news}".rstrip())
    cancelled = review.order.status is OrderStatus.CANCELLED and not form.knows_cancelled
    moved = review.new_customer is not None and form.knows_customer != review.new_customer
    if cancelled or moved:
        raise FormProblem(
            "decision", f"Something has happened while this page was open. {balance.news}"
        )


def _record(
    connection: sa.Connection, manager: str, standing: Standing, review: Review, form: Form
) -> Standing:
    approval, refund = standing.approval, review.refund
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
        standing = replace(standing, first=decision)
        _lower_amount(connection, refund, form)
        if refund.four_eyes and form.approves:
            return _await_second(connection, standing, refund, decision)
        _conclude(connection, review, decision)
        return standing
    # The stored decision stands. It may be newer than `standing`.
    standing = approvals.find_standing(connection, approval.approval_id) or standing
    first = standing.first
    if first is None or not refund.four_eyes or is_by(manager, first):
        return standing
    if approvals.record_countersignature(connection, decision):
        _lower_amount(connection, refund, form)
        _conclude(connection, review, decision, first_approved_by=first.decided_by)
        return replace(standing, second=decision)
    return standing


def _lower_amount(connection: sa.Connection, refund: Refund, form: Form) -> None:
    if form.amount is not None:
        refunds.lower_amount(connection, refund, form.amount)


def _await_second(
    connection: sa.Connection, standing: Standing, refund: Refund, decision: RecordedDecision
) -> Standing:
    """Let the refund wait for a second manager, who gets at least as much time as the first one had."""
    approval, live = standing.approval, services.current()
    expires_at = max(approval.expires_at, decision.decided_at + live.waits.approval_expiry)
    approvals.extend(connection, approval.approval_id, expires_at)
    until = expires_at.isoformat(timespec="seconds")
    action = "refund approved, second approval awaited"
    _audit(connection, refund, decision, action, second_by=until)
    _enqueue(connection, refund, "countersign")
    return replace(standing, approval=replace(approval, expires_at=expires_at))


def _conclude(
    connection: sa.Connection, review: Review, decision: RecordedDecision, **details: str
) -> None:
    refund, order = review.refund, review.order
    status = RefundStatus.APPROVED if decision.approves else RefundStatus.REJECTED
    knows_new_customer = decision.approves and review.new_customer is not None
    refunds.move(
        connection,
        refund,
        status,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        note=decision.note,
        despite_cancel=decision.approves and order.status is OrderStatus.CANCELLED,
        approved_for=hash_customer(order.customer_email) if knows_new_customer else None,
    )
    _audit(connection, refund, decision, f"refund {status.value}", **details)
    _enqueue(connection, refund, "decided")


def _audit(
    connection: sa.Connection,
    refund: Refund,
    decision: RecordedDecision,
    action: str,
    **details: str,
) -> None:
    lowered, amount = decision.amount_minor, refund.amount
    if lowered is not None:
        amount = Money(lowered, amount.currency)
    facts = {"amount": str(amount), "note": decision.note, **details}
    if decision.note and not decision.note_shared:
        facts["note_for"] = "the shop only"
    if decision.mail_id:
        facts["mail_id"] = decision.mail_id
    at, by = decision.decided_at, decision.decided_by
    audit.record(connection, at, by, action, refund.refund_id, facts)


def _enqueue(connection: sa.Connection, refund: Refund, why: str) -> None:
    asked_by = refund.run_id or run_id_of(REFUND, refund.refund_id)
    client = services.current().workflow_client
    run_id = client.queue.enqueue_refund(connection, refund.refund_id, asked_by, why)
    if run_id != refund.run_id:  # The refund is locked: no other transaction has claimed it since.
        refunds.claim(connection, refund.refund_id, run_id)
