"""The manager's page: GET shows the case and changes nothing, POST records one decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, make_response, render_template, request

from mailagent import services
from mailagent.adapters.links import ApprovalLink
from mailagent.domain.money import Money, parse_money
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.domain.typed_text import without_controls
from mailagent.doorbell import REFUND, run_id_of
from mailagent.store import approvals, audit, refunds
from mailagent.store.approvals import Approval, RecordedDecision
from mailagent.web import case

blueprint = Blueprint("approvals", __name__)

LONGEST_NOTE = 2000


class FormProblem(ValueError):
    """What the manager sent cannot be taken; the text says what to change, `field` where."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Form:
    approves: bool
    amount: Money | None
    note: str | None


@blueprint.get("/approvals/<token>")
def show(token: str) -> Response:
    """Show the case, or what was decided. Mail scanners open links: nothing may change here."""
    link = services.current().links.verify_approval(token)
    with services.current().database.snapshot() as connection:
        found = find_asked(connection, link)
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        if not still_decides(link):
            return no_longer_decides(link)
        return _show(connection, link, *found)


@blueprint.post("/approvals/<token>")
def decide(token: str) -> Response:
    """Record the decision unless one stands, and ring the refund in the same transaction."""
    link = services.current().links.verify_approval(token)
    with services.current().database.transaction() as connection:
        found = find_asked(connection, link)
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        if not still_decides(link):
            return no_longer_decides(link)
        approval, _ = found
        refund = refunds.lock(connection, approval.refund_id)
        if _is_open(refund, approval):
            try:
                _record(connection, link, approval, refund, _parse_form(refund))
            except FormProblem as problem:
                return _show(connection, link, approval, refund, problem)
            refund = refunds.load(connection, refund.refund_id)
        return _show(connection, link, approval, refund)


def find_asked(
    connection: sa.Connection, link: ApprovalLink | None
) -> tuple[Approval, Refund] | None:
    """Return what a verified link asks about, or None when there is no such approval."""
    approval = approvals.find(connection, link.approval_id) if link else None
    if approval is None:
        return None
    return approval, refunds.load(connection, approval.refund_id)


def still_decides(link: ApprovalLink) -> bool:
    """Say whether the address that a link was sent to may still decide, and so see cases."""
    return link.manager_email in services.current().shop.manager_emails


def no_longer_decides(link: ApprovalLink) -> Response:
    """Return the page for somebody who was a manager when the link was sent. It shows no case."""
    return page("approvals/no_longer_decides.html", 403, manager_email=link.manager_email)


def _is_open(refund: Refund, approval: Approval) -> bool:
    """Whether a decision may still be made. The date counts, not whether the run has seen it."""
    waits = refund.status is RefundStatus.AWAITING_APPROVAL
    return waits and services.current().now() < approval.expires_at


def _parse_form(refund: Refund) -> Form:
    decision = request.form.get("decision", "")
    if decision not in ("approve", "reject"):
        raise FormProblem("decision", "Please press Approve or Reject: the form did not say which.")
    note = _typed("note")
    if len(note) > LONGEST_NOTE:
        raise FormProblem(
            "note", f"The note is longer than {LONGEST_NOTE} characters. Please shorten it."
        )
    amount = _parse_amount(refund) if decision == "approve" else None
    return Form(decision == "approve", amount, note or None)


def _typed(field: str) -> str:
    return without_controls(request.form.get(field, "")).strip()


def _parse_amount(refund: Refund) -> Money | None:
    text = _typed("amount")
    if not request.form.get("amount", ""):
        return None  # all of it; blank is not empty: whoever typed something meant an amount
    try:
        amount = parse_money(text, refund.amount.currency)
    except ValueError as problem:
        raise FormProblem("amount", f"The amount cannot be read: {problem}.") from None
    if not 0 < amount.minor <= refund.amount.minor:
        raise FormProblem("amount", f"The amount must be above 0 and at most {refund.amount}.")
    return amount if amount != refund.amount else None


def _record(
    connection: sa.Connection, link: ApprovalLink, approval: Approval, refund: Refund, form: Form
) -> None:
    live = services.current()
    now = live.now()
    decision = RecordedDecision(
        approval_id=approval.approval_id,
        decision="approve" if form.approves else "reject",
        decided_by=link.manager_email,
        decided_at=now,
        amount_minor=form.amount.minor if form.amount else None,
        note=form.note,
    )
    if not approvals.record_decision(connection, decision):
        return  # somebody was faster: the page will say who
    if form.amount is not None:
        refunds.lower_amount(connection, refund, form.amount)
    status = RefundStatus.APPROVED if form.approves else RefundStatus.REJECTED
    refunds.move(
        connection, refund, status, decided_by=link.manager_email, decided_at=now, note=form.note
    )
    audit.record(
        connection,
        now,
        link.manager_email,
        f"refund {status.value}",
        refund.refund_id,
        {"amount": str(form.amount or refund.amount), "note": form.note},
    )
    asked_by = refund.run_id or run_id_of(REFUND, refund.refund_id)
    run_id = live.doorbell.ring_refund(connection, refund.refund_id, asked_by, "decided")
    refunds.claim(connection, refund.refund_id, run_id)


def _show(
    connection: sa.Connection,
    link: ApprovalLink,
    approval: Approval,
    refund: Refund,
    problem: FormProblem | None = None,
) -> Response:
    facts = case.of_refund(connection, refund, link.manager_email)
    if _is_open(refund, approval):
        if problem is None:
            return page("approvals/case.html", 200, case=facts)
        return page(
            "approvals/problem.html",
            422,
            case=facts,
            problem=str(problem),
            problem_field=problem.field,
            typed={name: _typed(name) for name in ("amount", "note")},
        )
    decision = approvals.find_decision(connection, approval.approval_id)
    if decision is not None:
        return page(
            "approvals/decided.html", 200, case=facts, decision=case.of_decision(decision, refund)
        )
    return page("approvals/expired.html", 200, case=facts)


def page(template: str, status: int, **facts: Any) -> Response:
    """Return a page that no cache keeps: its address is a key."""
    response = make_response(render_template(template, **facts), status)
    response.headers["Cache-Control"] = "no-store"
    return response
