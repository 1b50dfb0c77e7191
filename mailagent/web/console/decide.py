"""From the console to one's own page of an approval: a request that was lost in the mail blocks nobody."""

from __future__ import annotations

from typing import cast

from flask import Blueprint, Response, abort, redirect, url_for

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store.refunds import approvals, refunds
from mailagent.store.refunds.approvals import Standing
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals import decision
from mailagent.web.console.pages import not_found
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_decide", __name__)


@blueprint.get("/ops/refunds/<refund_id>/decide")
@needs(Permission.LOOK)
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
