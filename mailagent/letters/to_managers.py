"""What managers read: the question whether to refund, with a link that decides nothing by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail import (
    Purpose,
)
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.domain.wording import MANAGER_REASONS, REFUND_REASONS
from mailagent.letters.recording import Letter, record_letter
from mailagent.store import (
    approvals,
    cases,
    refunds,
)


def ask_manager(connection: sa.Connection, refund: Refund) -> str:
    """Ask whoever is next to decide on a refund that waits: the first manager, or, where one has
    approved and the policy wants four eyes, the first one who is not that one."""
    managers = services.current().shop.manager_emails
    first = approvals.find_first_of_refund(connection, refund.refund_id)
    if first is None:
        return write_approval_request(connection, refund, managers[0])
    others = _besides(first.decided_by, managers)
    if not others:
        raise LookupError(
            f"refund {refund.refund_id} needs a second manager beside {first.decided_by}, and there"
            " is none: add one to MANAGER_EMAILS, then replay this run"
        )
    return write_approval_request(connection, refund, others[0])


def _besides(decided_by: str, managers: Sequence[str]) -> Sequence[str]:
    """Return the managers who are somebody else than the one who has decided."""
    return [each for each in managers if person_of(each) != person_of(decided_by)]


def write_approval_request(connection: sa.Connection, refund: Refund, manager: str) -> str:
    """Ask one manager to decide, by a link that opens a page and decides nothing by itself. Where one
    has approved, this asks for the second approval, and says who gave the first."""
    live = services.current()
    approval = approvals.find_of_refund(connection, refund.refund_id)
    if approval is None:
        raise LookupError(f"refund {refund.refund_id} waits for a manager but has no approval")
    case = cases.load(connection, refund)
    first = approvals.find_decision(connection, approval.approval_id)
    facts = {
        "link_url": live.links.sign_approval(approval.approval_id, manager),
        "manager_email": manager,
        "order_id": case.order.order_id,
        "customer_name": case.order.customer_name,
        "customer_email": case.order.customer_email,
        "customer_since": case.customer_since,
        "amount": case.amount,
        "already_refunded": case.already_refunded,
        "paid": case.order.paid,
        "items": case.items,
        "shipping": case.shipping,
        "reason": REFUND_REASONS[refund.reason],
        "policy_reasons": [MANAGER_REASONS.get(each, each) for each in refund.policy_reasons],
        "customer_text": case.customer_text,
        "attachments": case.attachments,
        "requested_at": refund.requested_at,
        "expires_at": approval.expires_at,
        "first_approval": _approval_facts(first, refund) if first else None,
    }
    # Whoever was asked first and did not answer may be asked once more, for the second approval.
    question = "countersign_request" if first else "approval_request"
    letter = Letter(
        Purpose.APPROVAL_REQUEST,
        "approval_request",
        facts,
        to_address=manager,
        dedup_key=f"{question}:{approval.approval_id}:{manager}",
        refund_id=refund.refund_id,
    )
    return record_letter(connection, letter)


def _approval_facts(first: approvals.RecordedDecision, refund: Refund) -> dict[str, Any]:
    return {
        "decided_by": first.decided_by,
        "decided_at": first.decided_at,
        "amount": refund.amount,  # what the first manager left of it, if that was less
        "note": first.note,
    }


def ask_next_manager(connection: sa.Connection, refund_id: str, after: str) -> str | None:
    """Ask the manager who comes after one that mail does not reach, but never whoever has approved
    already; None when there is none, or no need any more."""
    managers = services.current().shop.manager_emails
    refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.AWAITING_APPROVAL or after not in managers:
        return None
    first = approvals.find_first_of_refund(connection, refund_id)
    following = managers[managers.index(after) + 1 :]
    left = _besides(first.decided_by, following) if first else following
    return write_approval_request(connection, refund, left[0]) if left else None
