"""The manager's page: GET shows the review and changes nothing, POST records one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, make_response, render_template

from mailagent import services
from mailagent.adapters.links import ApprovalLink
from mailagent.domain.refunds.labels import REFUND_STATES
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store.mail import raw_mail
from mailagent.store.refunds import approvals, orders, refunds, reviews
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals import attachments, decision, review_facts
from mailagent.web.approvals.decision import FormProblem, parse_form, typed
from mailagent.web.guard import signed_link

blueprint = Blueprint("approvals", __name__)


@blueprint.get("/approvals/<token>")
@signed_link
def show(token: str) -> Response:
    """Show the review, or the decision. Mail scanners open links: change nothing here."""
    link = services.current().links.verify_approval(token)
    with services.current().database.snapshot() as connection:
        standing = approvals.find_standing(connection, link.approval_id) if link else None
        if link is None or standing is None:
            return page("approvals/not_valid.html", 404)
        review = reviews.load(connection, refunds.load(connection, standing.approval.refund_id))
        refusal = _find_refusal(link, review.refund, review.owners)
        return refusal or _show(connection, link, standing, review)


@blueprint.post("/approvals/<token>")
@signed_link
def decide(token: str) -> Response:
    """Record the decision unless there is one, and wake the refund's workflow in the same transaction."""
    link = services.current().links.verify_approval(token)
    if link is not None and (refusal := _find_former(link)):
        return refusal  # before locking anything
    with services.current().database.transaction() as connection:
        found = _lock(connection, link.approval_id) if link else None
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        standing, review = found
        if refusal := _find_refusal(link, review.refund, review.owners):
            return refusal
        by_them = decision.is_by(link.manager_email, standing.first)
        problem = None
        if decision.is_open(review.refund, standing.approval) and not by_them:
            try:
                form = parse_form(review.refund, standing.first)
                standing = decision.take(connection, link.manager_email, standing, review, form)
            except FormProblem as met:
                problem = met
        review = replace(review, refund=refunds.load(connection, review.refund.refund_id))
        return _show(connection, link, standing, review, problem)


def _lock(connection: sa.Connection, approval_id: str) -> tuple[Standing, Review] | None:
    """Return an approval and its review, locked until the commit; None if there is no such approval."""
    # The order first: a decision changes what its order has left, and a withdrawal holds the order.
    order = orders.lock_of_approval(connection, approval_id)
    standing = approvals.find_standing(connection, approval_id) if order else None
    if order is None or standing is None:
        return None
    refund = refunds.lock(connection, standing.approval.refund_id)
    return standing, reviews.load(connection, refund, order)


def _find_refusal(link: ApprovalLink, refund: Refund, owners: tuple[str, ...]) -> Response | None:
    """Return the page for a reader who may not decide and sees no details: a former manager, or one of the
    `owners` of the order and the request. None for a manager who may."""
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
    review: Review,
    problem: FormProblem | None = None,
) -> Response:
    refund, made, second = review.refund, standing.first, standing.second
    facts = review_facts.describe(review, standing, link.manager_email)
    if not decision.shows_details(refund, standing.approval):
        return _show_closed(facts, review, standing)
    facts |= review_facts.describe_files(connection, review)
    first = review_facts.describe_decision(made, review) if made else None
    if decision.is_open(refund, standing.approval):
        facts |= review_facts.describe_requests(connection, review, standing)
        if decision.is_by(link.manager_email, made):
            return page("approvals/second_awaited.html", 200, review=facts, decision=first)
        facts |= review_facts.describe_changes(review)
        if missing := decision.find_missing_first(made):
            facts["news"].append(missing)
        return _show_form(facts, first, problem)
    facts |= review_facts.describe_notes(connection, standing)
    if refund.status is RefundStatus.WITHDRAWN:
        return page("approvals/withdrawn.html", 200, review=facts, withdrawn_at=refund.decided_at)
    last = second or made
    # A first approval without a second in time decided nothing.
    if last is None or (refund.four_eyes and last.approves and second is None):
        return page("approvals/expired.html", 200, review=facts, first=first)
    return page(
        "approvals/decided.html",
        200,
        review=facts,
        decision=review_facts.describe_decision(last, review),
        first=first if second else None,
    )


def _show_closed(facts: review_facts.Facts, review: Review, standing: Standing) -> Response:
    """Return the page of a refund that closed long ago: who decided, and no details."""
    made = filter(None, (standing.first, standing.second))
    return page(
        "approvals/closed.html",
        200,
        review=facts,
        state=REFUND_STATES[review.refund.status],
        decisions=[review_facts.describe_decision(each, review) for each in made],
        days=decision.SHOWN_AFTER_CLOSING.days,
    )


def _show_form(
    facts: review_facts.Facts, first: review_facts.Facts | None, problem: FormProblem | None
) -> Response:
    if problem is None:
        return page("approvals/review.html", 200, review=facts, first=first)
    return page(
        "approvals/problem.html",
        422,
        review=facts,
        first=first,
        problem=str(problem),
        problem_field=problem.field,
        typed={name: typed(name) for name in ("amount", "note", "note_private")},
    )


def page(template: str, status: int, **facts: Any) -> Response:
    """Return a page that is never cached: its URL gives access."""
    response = make_response(render_template(template, **facts), status)
    response.headers["Cache-Control"] = "no-store"
    return response


# --- files ----------------------------------------------------------------------------------------


@blueprint.get("/approvals/<token>/attachments/<mail_id>/<number>")
@signed_link
def download(token: str, mail_id: str, number: str) -> Response:
    """Return one of the files that the manager's page lists."""
    position = _find_file(token, mail_id, number)
    if not isinstance(position, int):
        return position
    live = services.current()
    with live.database.snapshot() as connection:
        raw = raw_mail.find(connection, mail_id)
    if raw is None:
        return page("approvals/no_longer_kept.html", 410, days=live.waits.raw_mail_days)
    file = live.mail_provider.find_attachment(raw.content_type, raw.body, position)
    if file is None:
        return page("approvals/not_valid.html", 404)
    if attachments.may_be_key(file):
        return page("approvals/file_kept_back.html", 403, name=file.name)
    return attachments.saved(file)


@blueprint.get("/approvals/<token>/photos/<mail_id>/<number>")
@signed_link
def preview(token: str, mail_id: str, number: str) -> Response:
    """Return the preview of a photo that the manager's page lists."""
    position = _find_file(token, mail_id, number)
    return attachments.shown(mail_id, position) if isinstance(position, int) else position


def _find_file(token: str, mail_id: str, number: str) -> int | Response:
    """Return the number of a file that the manager's page lists, or the page that says why it is not."""
    live = services.current()
    link = live.links.verify_approval(token)
    position = attachments.parse_number(number)
    with live.database.snapshot() as connection:
        standing = approvals.find_standing(connection, link.approval_id) if link else None
        if link is None or standing is None:
            return page("approvals/not_valid.html", 404)
        refund = refunds.load(connection, standing.approval.refund_id)
        refusal = _find_refusal(link, refund, reviews.list_owners(connection, refund))
        if refusal is not None:
            return refusal
        if not decision.shows_details(refund, standing.approval):
            days = decision.SHOWN_AFTER_CLOSING.days
            return page("approvals/no_longer_shown.html", 410, days=days)
        conversation_id = refund.conversation_id
        if position is None or not attachments.is_listed(
            connection, conversation_id, mail_id, position
        ):
            return page("approvals/not_valid.html", 404)
    return position
