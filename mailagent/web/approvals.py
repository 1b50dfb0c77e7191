"""The manager's page: GET shows the case and changes nothing, POST records one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, make_response, render_template

from mailagent import services
from mailagent.adapters.links import ApprovalLink
from mailagent.domain.order import Order
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.letters.asking import is_own
from mailagent.store import approvals, orders, refunds
from mailagent.store.approvals import Approval
from mailagent.web import case, decision
from mailagent.web.decision_form import FormProblem, parse_form, typed
from mailagent.web.guard import signed_link

blueprint = Blueprint("approvals", __name__)


@blueprint.get("/approvals/<token>")
@signed_link
def show(token: str) -> Response:
    """Show the case, or what was decided. Mail scanners open links: nothing may change here."""
    link = services.current().links.verify_approval(token)
    with services.current().database.snapshot() as connection:
        found = find_asked(connection, link)
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        return find_refusal(connection, link, found[1]) or _show(connection, link, *found)


@blueprint.post("/approvals/<token>")
@signed_link
def decide(token: str) -> Response:
    """Record the decision unless one stands, and ring the refund in the same transaction."""
    link = services.current().links.verify_approval(token)
    with services.current().database.transaction() as connection:
        found = find_asked(connection, link)
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        approval, refund = found
        if refusal := find_refusal(connection, link, refund):
            return refusal
        # The order first: a decision changes what its order has left, and who withdraws holds it.
        order = orders.lock_known(connection, refund.order_id)
        refund = refunds.lock(connection, refund.refund_id)
        first = approvals.find_decision(connection, approval.approval_id)
        by_them = decision.is_by(link.manager_email, first)
        if decision.is_open(refund, approval) and not by_them:
            try:
                form = parse_form(refund, first)
                decision.take(connection, link.manager_email, approval, refund, order, form)
            except FormProblem as problem:
                return _show(connection, link, approval, refund, order, problem)
            approval = approvals.find(connection, approval.approval_id) or approval
            refund = refunds.load(connection, refund.refund_id)
        return _show(connection, link, approval, refund, order)


def find_asked(
    connection: sa.Connection, link: ApprovalLink | None
) -> tuple[Approval, Refund] | None:
    """Return what a verified link asks about, or None when there is no such approval."""
    approval = approvals.find(connection, link.approval_id) if link else None
    if approval is None:
        return None
    return approval, refunds.load(connection, approval.refund_id)


def find_refusal(connection: sa.Connection, link: ApprovalLink, refund: Refund) -> Response | None:
    """Return the page for somebody who may not decide, and so sees no case: they were a manager when the
    link was sent, or the order is their own. None for whoever may."""
    if link.manager_email not in services.current().shop.manager_emails:
        return page("approvals/no_longer_decides.html", 403, manager_email=link.manager_email)
    if is_own(connection, refund, link.manager_email):
        return page("approvals/own_order.html", 403, order_id=refund.order_id)
    return None


def _show(
    connection: sa.Connection,
    link: ApprovalLink,
    approval: Approval,
    refund: Refund,
    order: Order | None = None,
    problem: FormProblem | None = None,
) -> Response:
    facts = case.of_refund(connection, refund, link.manager_email, order)
    made = approvals.find_decision(connection, approval.approval_id)
    first = case.of_decision(made, facts, refund) if made else None
    if decision.is_open(refund, approval):
        if decision.is_by(link.manager_email, made):
            return page("approvals/second_awaited.html", 200, case=facts, decision=first)
        missing = decision.find_missing_first(made)
        if missing:
            facts = replace(facts, news=(*facts.news, missing))
        return _ask(facts, first, problem)
    if refund.status is RefundStatus.WITHDRAWN:
        return page("approvals/withdrawn.html", 200, case=facts, withdrawn_at=refund.decided_at)
    second = approvals.find_countersignature(connection, approval.approval_id)
    last = second or made
    # An approval that nobody countersigned in time decided nothing.
    if last is None or (refund.four_eyes and last.approves and second is None):
        return page("approvals/expired.html", 200, case=facts, first=first)
    return page(
        "approvals/decided.html",
        200,
        case=facts,
        decision=case.of_decision(last, facts, refund),
        first=first if second else None,
    )


def _ask(
    facts: case.ShownCase, first: case.ShownDecision | None, problem: FormProblem | None
) -> Response:
    if problem is None:
        return page("approvals/case.html", 200, case=facts, first=first)
    return page(
        "approvals/problem.html",
        422,
        case=facts,
        first=first,
        problem=str(problem),
        problem_field=problem.field,
        typed={name: typed(name) for name in ("amount", "note", "note_private")},
    )


def page(template: str, status: int, **facts: Any) -> Response:
    """Return a page that no cache keeps: its address is a key."""
    response = make_response(render_template(template, **facts), status)
    response.headers["Cache-Control"] = "no-store"
    return response
