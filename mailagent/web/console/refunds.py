"""A refund: what was asked and why, who decided, what was paid, and what was told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.wording import REFUND_STATES
from mailagent.engine import Run
from mailagent.store.console import refund_history as history
from mailagent.store.console import timeline
from mailagent.store.refunds import approvals, cases, gateway_events, goodwill, refunds
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals import case as case_view
from mailagent.web.console import refund_facts, timeline_view
from mailagent.web.console.concealed import conceal
from mailagent.web.console.decide import may_decide
from mailagent.web.console.pages import not_found, page
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_refunds", __name__)

EVENTS_SHOWN_MAX = 50


@blueprint.get("/ops/refunds/<refund_id>")
@needs(Permission.LOOK)
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
    mails = history.list_mails(connection, refund.refund_id)
    events = timeline.list_events(connection, [mail.outbound_id for mail in mails])
    payments = refunds.list_payments(connection, refund.refund_id)
    # Of all the order's payments: also what was given back elsewhere, or taken back by a bank.
    names = [payment.payment_id for payment in order.payments]
    told = gateway_events.list_about(connection, names)
    audit = history.list_audit(connection, refund.refund_id)
    return {
        "case": shown,
        "customer_text": conceal(shown.customer_text, codes),
        "policy_facts": refund_facts.describe_facts(history.policy_facts(connection, refund)),
        "steps": timeline_view.of_entries(history.list_steps(connection, refund), {}, codes),
        "payments": refund_facts.describe_payments(payments, refund.amount.currency),
        "told": told[-EVENTS_SHOWN_MAX:],
        "mails": [
            timeline_view.mail_out(mail._asdict(), events.get(mail.outbound_id, ()), codes)
            for mail in mails
        ],
        "acts": timeline_view.of_entries(audit, {}, codes),
    }


def _runs(refund_id: str) -> Sequence[Run]:
    return services.current().doorbell.list_runs(subject=refund_id)
