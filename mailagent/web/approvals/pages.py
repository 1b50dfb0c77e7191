"""The manager's page: GET shows the review and changes nothing, POST records one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import sqlalchemy as sa
from flask import Blueprint, Response, abort, make_response, render_template, request

from mailagent import services
from mailagent.adapters.links import ApprovalLink
from mailagent.decisions import apply_decisions
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.refunds.labels import REFUND_STATES
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store.refunds import approvals, orders, refunds, remedies, reviews
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals import attachments, decision, review_facts
from mailagent.web.approvals.decision import parse_form, typed
from mailagent.web.form import FormProblem
from mailagent.web.guard import signed_link
from mailagent.web.language import _

blueprint = Blueprint("approvals", __name__)


@blueprint.get("/approvals/<token>")
@signed_link
def show(token: str) -> Response:
    """Show the review, or the decision. Mail scanners open links, so this must change nothing."""
    link = _verify(token)
    with services.current().database.snapshot() as connection:
        standing = _find_standing(connection, link)
        review = reviews.load(connection, refunds.load(connection, standing.approval.refund_id))
        _refuse_owner(link, review.refund, review.owners)
        return _show(connection, link, standing, review)


@blueprint.post("/approvals/<token>")
@signed_link
def decide(token: str) -> Response:
    """Record the decision unless there is one, and wake the refund's run in the same transaction."""
    link = _verify(token)
    with services.current().database.transaction() as connection:
        before, review = _lock(connection, link)
        _refuse_owner(link, review.refund, review.owners)
        standing, problem = before, None
        try:
            standing = _act(connection, link.manager_email, before, review)
        except FormProblem as met:
            problem = met
        review = replace(review, refund=refunds.load(connection, review.refund.refund_id))
        done = "" if _counts() else str(problem or _tell_outcome(link, before, standing))
        return _show(connection, link, standing, review, problem, done)


def _undoes() -> bool:
    return request.form.get("decision") == "undo"


def _counts() -> bool:
    """Return whether the pressed button only sums up the chosen items, for browsers without scripts."""
    return request.form.get("decision") == "count"


def _act(connection: sa.Connection, manager: str, standing: Standing, review: Review) -> Standing:
    """Do what the pressed button says, if that is still possible; return the approval's decisions after that.
    Raises FormProblem."""
    if _undoes():
        return decision.take_back(connection, manager, standing, review.refund)
    if decision.is_by(manager, standing.first) or not decision.is_open(review.refund, standing):
        return standing
    if _counts():
        decision.parse_quantities(review.refund)  # for its FormProblem
        return standing
    form = parse_form(review.refund, standing.first)
    return decision.take(connection, manager, standing, review, form)


def _tell_outcome(link: ApprovalLink, before: Standing, after: Standing) -> str:
    """Return a sentence about what the click did, if the page itself does not show that; else an empty text."""
    if after != before:
        return _("You have taken back your decision. Nothing was paid.") if _undoes() else ""
    if not _undoes():
        return _("Your click changed nothing: this was decided or closed before.")
    if any(decision.is_by(link.manager_email, each) for each in (before.first, before.second)):
        return _("Your click changed nothing: the time to take it back is over.")
    return _("Your click changed nothing: your decision is taken back already.")


def _verify(token: str) -> ApprovalLink:
    """Return the approval link in a signed token. Abort with a page for an invalid token, and for a person who
    is not a manager any more."""
    link = services.current().links.verify_approval(token)
    if link is None:
        _refuse("not_valid", 404)
    if link.manager_email not in services.current().shop.manager_emails:
        _refuse("no_longer_decides", 403, manager_email=link.manager_email)
    return link


def _find_standing(connection: sa.Connection, link: ApprovalLink) -> Standing:
    return approvals.find_standing(connection, link.approval_id) or _refuse("not_valid", 404)


def _lock(connection: sa.Connection, link: ApprovalLink) -> tuple[Standing, Review]:
    """Lock an approval's order and refund until the commit; return the approval and its review."""
    # Lock the order first, as everywhere: a decision changes what the order has left.
    order = orders.lock_of_approval(connection, link.approval_id)
    standing = _find_standing(connection, link)
    refund = refunds.lock(connection, standing.approval.refund_id)
    refund = apply_decisions(connection, refund, standing)
    return standing, reviews.load(connection, refund, order)


def _refuse_owner(link: ApprovalLink, refund: Refund, owners: tuple[str, ...]) -> None:
    """Abort with a page without details if the manager is one of the review's `owners`."""
    if is_one_of(owners, link.manager_email):
        proposed = decision.is_proposer(refund, link.manager_email)
        _refuse("own_order", 403, order_id=refund.order_id, proposed=proposed)


def _refuse(page_name: str, status: int, **values: Any) -> NoReturn:
    abort(page(f"approvals/{page_name}.html", status, **values))


def _show(
    connection: sa.Connection,
    link: ApprovalLink,
    standing: Standing,
    review: Review,
    problem: FormProblem | None = None,
    done: str = "",
) -> Response:
    refund, made, second = review.refund, standing.first, standing.second
    values = review_facts.describe(review, standing, link.manager_email) | {"done": done}
    values["unsent"] = _find_unsent(standing) if done else ""
    told = [
        review_facts.describe_decision(each, review, standing) for each in (made, second) if each
    ]
    if not decision.shows_details(refund, standing.approval):
        return page(
            "approvals/closed.html",
            review=values,
            state=REFUND_STATES[refund.status],
            decisions=told,
            days=decision.SHOWN_AFTER_CLOSING.days,
        )
    values |= review_facts.describe_files(connection, review)
    first = told[0] if told else None
    undo_until = decision.undo_until(refund, standing)
    mine = decision.is_by(link.manager_email, standing.last)
    values |= {"undo_until": undo_until, "undo_mine": mine}
    if decision.is_open(refund, standing):
        values |= review_facts.describe_requests(connection, review, standing)
        if undo_until or decision.is_by(link.manager_email, made):
            return page("approvals/second_awaited.html", review=values, decision=first)
        values |= review_facts.describe_changes(review)
        if missing := decision.find_missing_first(made):
            values["news"].append(missing)
        values["lines"] = _lines(review)
        return _show_form(values, first, problem)
    values["notes"] = approvals.list_notes(connection, standing.approval.approval_id)
    if refund.status is RefundStatus.WITHDRAWN:
        values["has_lapsed"] = remedies.has_lapsed(refund)
        return page("approvals/withdrawn.html", review=values, withdrawn_at=refund.decided_at)
    last = second or made
    # If the second approval did not come in time, the first one has decided nothing.
    if last is None or (refund.four_eyes and last.approves and second is None):
        return page("approvals/expired.html", review=values, first=first)
    return page(
        "approvals/decided.html", review=values, decision=told[-1], first=first if second else None
    )


def _find_unsent(standing: Standing) -> str:
    """Return the note in the request's form, unless a decision has it."""
    note = mask_card_numbers(typed("note"))
    kept = [each.note for each in (standing.first, standing.second) if each]
    return "" if note in kept else note


def _lines(review: Review) -> dict[str, Any]:
    typed_units = decision.typed_quantities(review.refund)
    try:
        chosen = decision.parse_quantities(review.refund)
    except FormProblem:
        chosen = {}
    return review_facts.describe_lines(review, typed_units, review.refund.covering(chosen))


def _show_form(
    values: review_facts.Values, first: review_facts.Values | None, problem: FormProblem | None
) -> Response:
    if problem is None and not _counts():
        return page("approvals/review.html", review=values, first=first)
    return page(
        "approvals/review.html",
        422 if problem else 200,
        review=values,
        first=first,
        problem=str(problem or ""),
        problem_field=problem.field if problem else "",
        typed={name: typed(name) for name in ("amount", "note", "note_shared", "offer_percent")},
    )


def page(template: str, status: int = 200, **values: Any) -> Response:
    """Return a page that must not be cached, because its URL gives access."""
    response = make_response(render_template(template, **values), status)
    response.headers["Cache-Control"] = "no-store"
    return response


# --- files ----------------------------------------------------------------------------------------


@blueprint.get("/approvals/<token>/attachments/<mail_id>/<number>")
@signed_link
def download(token: str, mail_id: str, number: str) -> Response:
    """Return one of the files that the manager's page lists."""
    file = attachments.fetch(mail_id, _find_file(token, mail_id, number))
    if file is None:
        _refuse("no_longer_kept", 410, days=services.current().waits.raw_mail_days)
    if attachments.may_be_key(file):
        _refuse("file_kept_back", 403, name=file.name)
    return attachments.saved(file)


@blueprint.get("/approvals/<token>/photos/<mail_id>/<number>")
@signed_link
def preview(token: str, mail_id: str, number: str) -> Response:
    """Return the preview of a photo that the manager's page lists."""
    return attachments.shown(mail_id, _find_file(token, mail_id, number))


def _find_file(token: str, mail_id: str, number: str) -> int:
    """Return the number of a file that the manager's page lists; abort for any other."""
    link = _verify(token)
    with services.current().database.snapshot() as connection:
        standing = _find_standing(connection, link)
        refund = refunds.load(connection, standing.approval.refund_id)
        _refuse_owner(link, refund, reviews.list_owners(connection, refund))
        if not decision.shows_details(refund, standing.approval):
            _refuse("no_longer_shown", 410, days=decision.SHOWN_AFTER_CLOSING.days)
        position = attachments.find_position(connection, refund.conversation_id, mail_id, number)
    if position is None:
        _refuse("not_valid", 404)
    return position
