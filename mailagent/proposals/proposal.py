"""Asks the policy about a proposed refund, and records its decision. Callers lock the order first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.run_about import RunAbout
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import (
    Approved,
    Decision,
    Declined,
    DeclineReason,
    NeedsManager,
)
from mailagent.domain.refunds.policy_rules import RefundFacts, decide, list_exceeded
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.proposals.facts import (
    MAILS_WITH_PHOTOS_MAX,
    Asked,
    count_photos,
    gather_facts,
    lock_caps,
    plain_facts,
)
from mailagent.proposals.returns import await_goods
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.mail import raw_mail
from mailagent.store.refunds import approvals, external_refunds, policies, refunds

_ACTIONS: Mapping[RefundStatus, audit.Action] = {
    RefundStatus.AWAITING_APPROVAL: "refund awaiting_approval",
    RefundStatus.APPROVED: "refund approved",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Who asks, and in answer to which mail. The same `key` makes one refund. `proposed_by`: the person of the
    shop; None for the agent. `accepts`: the offer that the customer accepted, in words. `credit_bonus`: in
    percent, if the customer chose store credit. `asks_credit`: they ask for it, but were not offered it yet.
    `decided_by`: the manager who has promised it, and who knew what the policy says against it. `asked_at`:
    when the customer's mail came."""

    conversation_id: str
    mail_id: str
    key: str
    proposed_by: str | None = None
    accepts: str | None = None
    credit_bonus: int | None = None
    asks_credit: bool = False
    decided_by: str = audit.POLICY
    asked_at: datetime | None = None


def consider(
    connection: sa.Connection,
    asked: Asked,
    conversation_id: str,
    despite: Collection[DeclineReason] = (),
) -> tuple[RefundFacts, Decision]:
    """Return the facts, and what the policy decides on them. Record nothing. `despite`: reasons to decline that
    the policy ignores."""
    live = services.current()
    lock_caps(connection, asked.order)
    mails = raw_mail.list_with_files(connection, conversation_id, MAILS_WITH_PHOTOS_MAX)
    facts = gather_facts(connection, asked, *count_photos(mails))
    return facts, decide(facts, live.policy, live.now(), despite)


def decline(
    connection: sa.Connection,
    proposal: Proposal,
    asked: Asked,
    facts: RefundFacts,
    decision: Declined,
) -> None:
    """Record in the audit log that the policy declined a refund."""
    live = services.current()
    details = {
        "reason": decision.reason.value,
        "mail_id": proposal.mail_id,
        "units": asked.units,
        "facts": plain_facts(facts),
        "policy_version": policies.record(connection, live.policy, live.now()),
    }
    if proposal.proposed_by:
        details["proposed_by"] = proposal.proposed_by
    order_id = asked.order.order_id
    audit.record(connection, live.now(), audit.POLICY, audit.DECLINED, order_id, details)


def offer_credit_first(connection: sa.Connection, proposal: Proposal, asked: Asked) -> None:
    """Record in the audit log that the customer asks for store credit. We offer it before a refund is made,
    because the refund would be paid as money at once."""
    details = {"mail_id": proposal.mail_id, "units": asked.units, "reason": asked.reason.value}
    now, order_id = services.current().now(), asked.order.order_id
    audit.record(connection, now, audit.CUSTOMER, audit.CREDIT_ASKED_FOR, order_id, details)


def record(
    connection: sa.Connection,
    proposal: Proposal,
    asked: Asked,
    facts: RefundFacts,
    decision: Approved | NeedsManager,
) -> Refund:
    """Record the refund with its decision, and enqueue its run. If the policy wants the goods back first, also
    record that it waits for them."""
    live = services.current()
    version = policies.record(connection, live.policy, live.now())
    refund = _refund(proposal, asked, facts, decision, version)
    known = plain_facts(facts)
    if proposal.accepts:
        known["accepts"] = proposal.accepts
    if exceeded := list_exceeded(facts, live.policy, live.now()):
        known["exceeded"] = {name: asdict(each) for name, each in exceeded.items()}
    _record_refund(connection, refund, asked.order, proposal.key, known)
    if not asked.cancels:  # cancelled items are still at the shop
        await_goods(connection, refund, asked.order)
    return refund


def _refund(
    proposal: Proposal,
    asked: Asked,
    facts: RefundFacts,
    decision: Approved | NeedsManager,
    version: str,
) -> Refund:
    now = services.current().now()
    manager = decision if isinstance(decision, NeedsManager) else None
    is_promise = proposal.decided_by != audit.POLICY
    return Refund(
        refund_id=new_id("refund"),
        order_id=asked.order.order_id,
        conversation_id=proposal.conversation_id,
        mail_id=proposal.mail_id,
        amount=facts.amount,
        shipping_minor=asked.shipping.minor,
        short_minor=asked.worth.minor - facts.amount.minor,
        lines=asked.lines,
        item_ids=asked.item_ids,
        reason=asked.reason,
        status=RefundStatus.AWAITING_APPROVAL if manager else RefundStatus.APPROVED,
        requested_at=now,
        policy_reasons=tuple(each.value for each in manager.reasons) if manager else (),
        decided_by=None if manager else proposal.decided_by,
        decided_at=None if manager else now,
        four_eyes=manager is not None and manager.four_eyes,
        policy_version=version,
        proposed_by=proposal.proposed_by,
        despite_cancel=asked.cancels
        or (is_promise and asked.order.status is OrderStatus.CANCELLED),
        credit_bonus=proposal.credit_bonus,
        keeps_items=proposal.accepts is not None,
    )


def _record_refund(
    connection: sa.Connection, refund: Refund, order: Order, key: str, facts: Mapping[str, Any]
) -> None:
    live = services.current()
    refunds.record(connection, refund, key, facts)
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        expires_at = live.now() + live.waits.approval_expiry
        approvals.request(connection, refund.refund_id, live.now(), expires_at)
    elsewhere = external_refunds.given_back(connection, order.order_id, order.currency)
    details = {"order_id": order.order_id, "amount": str(refund.amount)}
    details["elsewhere"] = str(elsewhere)  # it may stop the refund if it grows
    if refund.proposed_by:
        details["proposed_by"] = refund.proposed_by
    audit.record(
        connection,
        live.now(),
        refund.decided_by or audit.POLICY,
        _ACTIONS[refund.status],
        refund.refund_id,
        details,
    )
    about = RunAbout(
        refund.conversation_id, refund.order_id, refund.refund_id, order.customer_email
    )
    live.workflow_client.queue.enqueue_refund(connection, refund.refund_id, None, about=about)
