"""The page of a refund: what was asked and why, who decided, what was paid; and deciding on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa
from flask import Blueprint, Response, abort, redirect, url_for

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.wording import REFUND_STATES
from mailagent.engine import Run
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store.console import timeline
from mailagent.store.refunds import (
    approvals,
    cases,
    gateway_events,
    goodwill,
    refund_payments,
    refunds,
)
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals import case_view, decision
from mailagent.web.console import refund_facts, timeline_view
from mailagent.web.console.page import conceal, not_found, page
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_refunds", __name__)

EVENTS_SHOWN_MAX = 50


@blueprint.get("/ops/refunds/<refund_id>")
@needs(Permission.VIEW)
def show(refund_id: str) -> Response:
    """Show all that is on record of a refund."""
    if not refund_id.isprintable():
        return not_found("refund")
    person = current_person()
    with services.current().database.snapshot() as connection:
        refund = refunds.find(connection, refund_id)
        if refund is None:
            return not_found("refund")
        standing = approvals.find_standing_of_refund(connection, refund_id)
        case = cases.with_others(connection, cases.load(connection, refund))
        facts = _facts(connection, case, standing, person.email)
    return page(
        "ops/refund.html",
        200,
        refund=refund,
        amount=refund_facts.money(refund.amount.minor, refund.amount.currency),
        state=REFUND_STATES[refund.status],
        waits=refund.status is RefundStatus.AWAITING_APPROVAL,
        decides=may_decide(standing, case),
        runs=_runs(refund_id) if person.may(Permission.RUNS) else (),
        **facts,
    )


def _facts(
    connection: sa.Connection, case: Case, standing: Standing | None, email: str
) -> dict[str, Any]:
    refund, order = case.refund, case.order
    shown = case_view.with_news(case_view.of_case(case, standing, email), case)
    codes = goodwill.list_codes_for(connection, refund.conversation_id, order.customer_email)
    mails = timeline.list_mails(connection, refund.refund_id)
    events = timeline.list_events(connection, [mail.outbound_id for mail in mails])
    payments = refund_payments.list_payments(connection, refund.refund_id)
    # Of all the order's payments: also what was given back elsewhere, or taken back by a bank.
    names = [payment.payment_id for payment in order.payments]
    told = gateway_events.list_about(connection, names)
    audit = timeline.list_audit(connection, refund.refund_id)
    return {
        "case": shown,
        "customer_text": conceal(shown.customer_text, codes),
        "policy_facts": refund_facts.describe_facts(timeline.policy_facts(connection, refund)),
        "steps": timeline_view.of_entries(timeline.list_steps(connection, refund), {}, codes),
        "payments": refund_facts.describe_payments(payments, refund.amount.currency),
        "told": told[-EVENTS_SHOWN_MAX:],
        "mails": [
            timeline_view.mail_out(mail._asdict(), events.get(mail.outbound_id, ()), codes)
            for mail in mails
        ],
        "acts": timeline_view.of_entries(audit, {}, codes),
    }


def _runs(refund_id: str) -> Sequence[Run]:
    return services.current().workflow_client.runs.list_runs(subject=refund_id)


# --- decide ---------------------------------------------------------------------------------------


@blueprint.get("/ops/refunds/<refund_id>/decide")
@needs(Permission.VIEW)
def go(refund_id: str) -> Response:
    """Lead a manager to the page on which they decide, by a link of their own. This changes nothing; of
    a refund that does not wait, it leads to the refund's page."""
    manager = _manager_email()
    if manager is None:
        abort(403)
    with services.current().database.snapshot() as connection:
        refund = refunds.find(connection, refund_id)
        approval = approvals.find_of_refund(connection, refund_id)
    if refund is None:
        return not_found("refund")
    if approval is None or refund.status is not RefundStatus.AWAITING_APPROVAL:
        return cast(Response, redirect(f"/ops/refunds/{refund_id}", 303))
    link = services.current().links.sign_approval(approval.approval_id, manager)
    page = url_for("approvals.show", token=link.rpartition("/")[2])
    return cast(Response, redirect(page, 303))


def may_decide(standing: Standing | None, case: Case) -> bool:
    """Say whether whoever is logged in can decide on a refund now; not once more on what they
    approved, nor on an order of their own."""
    manager = _manager_email()
    if manager is None or standing is None or not decision.is_open(case.refund, standing.approval):
        return False
    mine = decision.is_by(manager, standing.first)
    return not mine and not is_one_of(case.owners, manager)


def _manager_email() -> str | None:
    """Return the address by which whoever is logged in decides, spelt as in the settings."""
    email = current_person().email.casefold()
    managers = services.current().shop.manager_emails
    return next((each for each in managers if each.casefold() == email), None)
