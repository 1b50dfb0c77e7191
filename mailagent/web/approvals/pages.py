"""The manager's page: GET shows the case and changes nothing, POST records one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, make_response, render_template

from mailagent import services
from mailagent.adapters.links import ApprovalLink
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.wording import REFUND_STATES
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store.refunds import approvals, cases, orders, refunds
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals import case_view, decision
from mailagent.web.approvals.case_view import ShownCase, ShownDecision
from mailagent.web.approvals.decision_form import FormProblem, parse_form, typed
from mailagent.web.guard import signed_link

blueprint = Blueprint("approvals", __name__)


@blueprint.get("/approvals/<token>")
@signed_link
def show(token: str) -> Response:
    """Show the case, or what was decided. Mail scanners open links: nothing may change here."""
    link = services.current().links.verify_approval(token)
    with services.current().database.snapshot() as connection:
        standing = approvals.find_standing(connection, link.approval_id) if link else None
        if link is None or standing is None:
            return page("approvals/not_valid.html", 404)
        case = cases.load_among(connection, standing.approval.refund_id)
        refusal = find_refusal(link, case.refund, case.owners)
        return refusal or _show(connection, link, standing, case)


@blueprint.post("/approvals/<token>")
@signed_link
def decide(token: str) -> Response:
    """Record the decision unless one stands, and wake the refund in the same transaction."""
    link = services.current().links.verify_approval(token)
    if link is not None and (refusal := _find_former(link)):
        return refusal  # whoever does not decide locks nothing
    with services.current().database.transaction() as connection:
        found = _lock(connection, link.approval_id) if link else None
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        standing, case = found
        if refusal := find_refusal(link, case.refund, case.owners):
            return refusal
        by_them = decision.is_by(link.manager_email, standing.first)
        problem = None
        if decision.is_open(case.refund, standing.approval) and not by_them:
            try:
                form = parse_form(case.refund, standing.first)
                standing = decision.take(connection, link.manager_email, standing, case, form)
            except FormProblem as met:
                problem = met
        case = cases.with_others(connection, case)
        return _show(connection, link, standing, case, problem)


def find_asked(
    connection: sa.Connection, link: ApprovalLink | None
) -> tuple[Standing, Refund] | None:
    """Return what a verified link asks about, or None when there is no such approval."""
    standing = approvals.find_standing(connection, link.approval_id) if link else None
    if standing is None:
        return None
    return standing, refunds.load(connection, standing.approval.refund_id)


def _lock(connection: sa.Connection, approval_id: str) -> tuple[Standing, Case] | None:
    """Return what an approval is about, locked until the commit; None where there is none.

    The order first: a decision changes what its order has left, and who withdraws holds it.
    """
    order = orders.lock_of_approval(connection, approval_id)
    standing = approvals.find_standing(connection, approval_id) if order else None
    if order is None or standing is None:
        return None
    refund = refunds.lock(connection, standing.approval.refund_id)
    return standing, cases.load(connection, refund, order)


def find_refusal(link: ApprovalLink, refund: Refund, owners: tuple[str, ...]) -> Response | None:
    """Return the page for somebody who may not decide, and so sees no case: they were a manager when the
    link was sent, or the order is their own. None for whoever may. `owners`: the refund's, see `cases`."""
    if refusal := _find_former(link):
        return refusal
    if is_one_of(owners, link.manager_email):
        return page("approvals/own_order.html", 403, order_id=refund.order_id)
    return None


def _find_former(link: ApprovalLink) -> Response | None:
    if link.manager_email not in services.current().shop.manager_emails:
        return page("approvals/no_longer_decides.html", 403, manager_email=link.manager_email)
    return None


def _show(
    connection: sa.Connection,
    link: ApprovalLink,
    standing: Standing,
    case: Case,
    problem: FormProblem | None = None,
) -> Response:
    """Return the page of a case, with its order's other refunds."""
    refund, made, second = case.refund, standing.first, standing.second
    facts = case_view.of_case(case, standing, link.manager_email)
    if not decision.shows_case(refund, standing.approval):
        return _closed(facts, refund, standing)
    facts = case_view.with_files(connection, facts, case)
    first = case_view.of_decision(made, facts, refund) if made else None
    if decision.is_open(refund, standing.approval):
        facts = case_view.with_requests(connection, facts, case, standing)
        if decision.is_by(link.manager_email, made):
            return page("approvals/second_awaited.html", 200, case=facts, decision=first)
        facts = case_view.with_news(facts, case)
        missing = decision.find_missing_first(made)
        if missing:
            facts = replace(facts, news=(*facts.news, missing))
        return _request(facts, first, problem)
    facts = case_view.with_notes(connection, facts, standing)
    if refund.status is RefundStatus.WITHDRAWN:
        return page("approvals/withdrawn.html", 200, case=facts, withdrawn_at=refund.decided_at)
    last = second or made
    # An approval that nobody countersigned in time decided nothing.
    if last is None or (refund.four_eyes and last.approves and second is None):
        return page("approvals/expired.html", 200, case=facts, first=first)
    return page(
        "approvals/decided.html",
        200,
        case=facts,
        decision=case_view.of_decision(last, facts, refund),
        first=first if second else None,
    )


def _closed(facts: ShownCase, refund: Refund, standing: Standing) -> Response:
    """Return the page of a refund that was closed long ago: who decided what, and nothing of the case."""
    made = filter(None, (standing.first, standing.second))
    return page(
        "approvals/closed.html",
        200,
        case=facts,
        state=REFUND_STATES[refund.status],
        decisions=[case_view.of_decision(each, facts, refund) for each in made],
        days=decision.CASE_SHOWN.days,
    )


def _request(
    facts: ShownCase, first: ShownDecision | None, problem: FormProblem | None
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
