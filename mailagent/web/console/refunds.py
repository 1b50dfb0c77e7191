"""The page of a refund: the request, the decision and its reasons, the payments; and the link to decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, abort, request, url_for

from mailagent import services
from mailagent.adapters import gateways
from mailagent.decisions import can_be_refused, refuse
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store.console import timeline
from mailagent.store.database import Row
from mailagent.store.refunds import (
    approvals,
    gateway_events,
    goodwill,
    orders,
    refund_payments,
    refunds,
    reviews,
)
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals import decision, review_facts
from mailagent.web.console import timeline_view
from mailagent.web.console.labels import PAYMENT_STATES, STATES, detail_label, money
from mailagent.web.console.page import found, go_to, page, redact, typed
from mailagent.web.guard import current_person, needs
from mailagent.web.language import _, translate, write_day

blueprint = Blueprint("ops_refunds", __name__)

EVENTS_SHOWN_MAX = 50


@blueprint.get("/ops/refunds/<refund_id>")
@needs(Permission.VIEW)
def show(refund_id: str) -> Response:
    """Show everything on record about a refund."""
    person, runs = current_person(), services.current().workflow_client.runs
    with services.current().database.snapshot() as connection:
        refund = found(refunds.find(connection, refund_id), "refund")
        standing = approvals.find_standing_of_refund(connection, refund_id)
        review = reviews.load(connection, refund)
        shown = review_facts.describe(review, standing, person.email)
        codes = goodwill.list_codes_for(
            connection, refund.conversation_id, review.order.customer_email
        )
        facts = _facts(connection, review, codes)
        refuses = _may_refuse(review) and can_be_refused(connection, refund)
    return page(
        "ops/refund.html",
        refund=refund,
        amount=money(refund.amount.minor, refund.amount.currency),
        state=STATES[refund.status],
        waits=refund.status is RefundStatus.AWAITING_APPROVAL,
        decides=may_decide(standing, review),
        refuses=refuses,
        failure_codes=_codes(refund, refund.failure),
        undo_until=decision.undo_until(refund, standing) if standing else None,
        runs=runs.list_runs(subject=refund_id) if person.may(Permission.RUNS) else (),
        review=shown | review_facts.describe_changes(review),
        customer_text=redact(review.customer_text, codes),
        **facts,
    )


def _facts(connection: sa.Connection, review: Review, codes: Sequence[str]) -> dict[str, Any]:
    refund, order = review.refund, review.order
    mails = timeline.list_mails(connection, refund.refund_id)
    events = timeline.list_events(connection, [mail.facts["outbound_id"] for mail in mails])
    payments = refund_payments.list_payments(connection, refund.refund_id)
    # All payments of the order, also those with external refunds or a chargeback.
    payment_ids = [payment.payment_id for payment in order.payments]
    reported = gateway_events.list_about(connection, payment_ids)
    steps = timeline.list_steps(connection, refund.refund_id)
    audit = timeline.list_audit(connection, refund.refund_id)
    policy_facts = timeline.policy_facts(connection, refund.refund_id)
    return {
        "policy_facts": list(describe_facts(policy_facts)),
        "steps": timeline_view.of_entries(steps, {}, codes),
        "payments": [_payment(row, refund) for row in payments],
        "gateway_events": reported[-EVENTS_SHOWN_MAX:],
        "mails": timeline_view.of_entries(mails, events, codes),
        "acts": timeline_view.of_entries(audit, {}, codes),
    }


def _codes(refund: Refund, why: str | None) -> list[tuple[str, str]]:
    # None is recorded while it is asked.
    names = refund.gateway or services.current().gateway.name
    return [(code, translate(said)) for code, said in gateways.find_codes(why or "", names)]


def _payment(row: Row, refund: Refund) -> dict[str, Any]:
    state = (_("came back to the shop"), "bad") if row.returned_at else PAYMENT_STATES[row.state]
    if refund_payments.pending_reference(row):
        state = (_("recorded, not settled yet"), "waiting")
    return {
        **row._asdict(),
        "amount": money(row.amount_minor, refund.amount.currency),
        "badge": state,
        "codes": _codes(refund, row.problem),
        "at": row.returned_at or row.done_at or row.intended_at,
    }


# The policy's facts that are amounts. The last three are shown only if they are above zero.
AMOUNTS = {
    "amount": "Asked for",
    "remaining": "Left of what was paid",
    "worth": "Worth of the items",
    "charged_back": "Taken back by the bank",
    "seen_by_one": "Granted before without a second person",
}
GRANTED = {
    "granted_unasked": "Granted without asking, this order",
    "of_customer": "Granted without asking, this customer",
    "of_day": "Granted without asking, the shop in a day",
}


def describe_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts by which the policy decided, as pairs of a label and a value."""
    for name, label in AMOUNTS.items():
        amount = str(facts.get(name) or "")
        is_zero = not amount.partition(" ")[0].strip("0.")
        if amount and (name in ("amount", "remaining") or not is_zero):
            yield translate(label), detail_label(amount)
    if status := facts.get("order_status"):
        yield _("State of the order"), translate(OrderStatus(status).value)
    if delivered_at := facts.get("delivered_at"):
        yield _("Delivered"), write_day(date.fromisoformat(str(delivered_at)[:10]))
    if "photos" in facts:
        yield _("Photos sent"), str(facts["photos"])
    if accepts := facts.get("accepts"):
        yield _("Accepted offer"), str(accepts)
    if methods := facts.get("methods"):
        yield _("Paid by"), ", ".join(methods)
    if categories := {line.get("category") for line in facts.get("lines", ())} - {None}:
        yield _("Categories"), ", ".join(sorted(categories))
    if facts.get("items_before"):
        yield _("Refunded or sent again before"), _("units of the same items")
    for name, label in GRANTED.items():
        if granted := facts.get(name):
            amount = detail_label(granted["amount"])
            yield (
                translate(label),
                _("%(amount)s in %(count)s", amount=amount, count=granted["count"]),
            )


# --- decide ---------------------------------------------------------------------------------------


@blueprint.get("/ops/refunds/<refund_id>/decide")
@needs(Permission.VIEW)
def go(refund_id: str) -> Response:
    """Redirect a manager to their approval page by a newly signed link; if they cannot decide now, to the
    refund's page. This changes nothing."""
    manager = _manager_email()
    if manager is None:
        abort(403)
    with services.current().database.snapshot() as connection:
        refund = found(refunds.find(connection, refund_id), "refund")
        approval = approvals.find_of_refund(connection, refund_id)
    if approval is None or refund.status is not RefundStatus.AWAITING_APPROVAL:
        return go_to(f"/ops/refunds/{refund_id}")
    link = services.current().links.sign_approval(approval.approval_id, manager)
    return go_to(url_for("approvals.show", token=link.rpartition("/")[2]))


@blueprint.post("/ops/refunds/<refund_id>/refuse")
@needs(Permission.VIEW)
def refuse_after_all(refund_id: str) -> Response:
    """Refuse a refund that was approved, with a reason, while no run is at it and no gateway was asked to pay
    it. The customer gets a mail."""
    why = mask_card_numbers(typed("reason", request.form))
    with services.current().database.transaction() as connection:
        orders.lock_row_of_refund(connection, refund_id)
        refund = found(refunds.find(connection, refund_id), "refund")
        if not _may_refuse(reviews.load(connection, refund)):
            abort(403)
        if why:
            refuse(connection, refunds.lock(connection, refund_id), current_person().email, why)
    return go_to(f"/ops/refunds/{refund_id}")


def _may_refuse(review: Review) -> bool:
    """Return whether the logged-in person may refuse a refund after all: managers may, but not of their own."""
    manager = _manager_email()
    return manager is not None and not is_one_of(review.owners, manager)


def may_decide(standing: Standing | None, review: Review) -> bool:
    """Return whether the logged-in person may decide now: a manager who has not approved it already, and
    whose own order it is not."""
    manager = _manager_email()
    if manager is None or standing is None or not decision.is_open(review.refund, standing):
        return False
    return not decision.is_by(manager, standing.first) and not is_one_of(review.owners, manager)


def _manager_email() -> str | None:
    """Return the logged-in manager's address as the settings spell it; None for others."""
    email = current_person().email.casefold()
    managers = services.current().shop.manager_emails
    return next((each for each in managers if each.casefold() == email), None)
