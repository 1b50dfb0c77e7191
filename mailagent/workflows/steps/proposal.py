"""A refund that the agent proposes: priced, decided by the policy and recorded under the order's lock.

Amounts and permissions come from rows, never from the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import tool_outputs
from mailagent.domain.mail import MailStatus
from mailagent.domain.money import Money
from mailagent.domain.order import Order
from mailagent.domain.policy import Approved, Decision, Declined, NeedsManager, RefundFacts, decide
from mailagent.domain.refund import (
    REFUSED,
    ItemsProblem,
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    WantedItem,
    price_lines,
    price_shipping,
)
from mailagent.domain.refusal import overlaps_refused
from mailagent.store import approvals, audit, conversations, mailbox, orders, refunds
from mailagent.store.ids import new_id
from mailagent.workflows.steps.batch import Batch
from mailagent.workflows.steps.recording import step


@step
def propose_refund(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Decide on what the model proposes, under the order's lock, and record what was decided.

    The amount is computed, the policy decides, and the refund's run is rung in the same transaction.
    """
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    wanted = [WantedItem(**item) for item in arguments["items"]]
    with services.current().database.transaction() as connection:
        order = orders.lock(connection, arguments["order_id"])
        if order is None or order.customer_email != _customer(connection, batch):
            return tool_outputs.no_such_order_output()
        key = _proposal_key(batch, order.order_id, wanted)
        known = refunds.find_by_proposal(connection, key)
        if known is not None:
            return _proposed_output(known, order)
        if not _is_waiting(connection, batch):
            return tool_outputs.case_closed_output()
        try:
            return _propose(
                connection, batch, order, wanted, RefundReason(arguments["reason"]), key
            )
        except ItemsProblem as problem:
            return tool_outputs.bad_items_output(problem)


def _is_waiting(connection: sa.Connection, batch: Batch) -> bool:
    """Say whether the batch still waits for an answer: a replayed run may be late with its wishes.

    As for a reply: where people took one of the mails, the agent is through with all of them.
    """
    mails = mailbox.list_by_id(connection, batch["mail_ids"])
    return all(mail.status is MailStatus.UNANSWERED for mail in mails)


def _propose(
    connection: sa.Connection,
    batch: Batch,
    order: Order,
    wanted: Sequence[WantedItem],
    reason: RefundReason,
    key: str,
) -> dict[str, Any]:
    live = services.current()
    earlier = refunds.list_of_order(connection, order.order_id)
    lines = price_lines(order, wanted, earlier)
    same = _already_asked(batch, wanted, lines, earlier)
    if same is not None:
        return tool_outputs.already_requested_output(same, order)
    shipping = price_shipping(order, lines, earlier)
    facts = _facts(connection, order, lines, shipping, earlier, reason)
    decision = decide(facts, live.policy, live.now())
    if isinstance(decision, Declined):
        return tool_outputs.declined_output(decision, order, live.policy)
    refund = _refund(batch, order, lines, shipping, reason, decision)
    _record_refund(connection, refund, order, key, facts)
    return _proposed_output(refund, order)


def _already_asked(
    batch: Batch,
    wanted: Sequence[WantedItem],
    lines: Sequence[RefundLine],
    earlier: Sequence[Refund],
) -> Refund | None:
    """Return the refund that already covers what is wanted, or the same wish of this conversation
    that was refused. In other words or another conversation, a manager has to see it again."""
    items = {want.item_id for want in wanted}
    touching = [refund for refund in earlier if items & set(refund.item_ids)]
    for refund in reversed(touching):
        if refund.holds_money and not lines:
            return refund
        here = refund.conversation_id == batch["conversation_id"]
        if here and refund.status in REFUSED and refund.is_for(lines):
            return refund
    return None


def _facts(
    connection: sa.Connection,
    order: Order,
    lines: Sequence[RefundLine],
    shipping: Money,
    earlier: Sequence[Refund],
    reason: RefundReason,
) -> RefundFacts:
    held = orders.held_minor(connection, order.order_id)
    unasked = sum(refund.held.minor for refund in earlier if refund.decided_by == audit.POLICY)
    return RefundFacts(
        amount=_total(lines, shipping),
        remaining=Money(order.paid.minor - held, order.currency),
        granted_unasked=Money(unasked, order.currency),
        order_status=order.status,
        delivered_at=order.delivered_at,
        reason=reason,
        refused_before=overlaps_refused(order, lines, earlier),
    )


def _refund(
    batch: Batch,
    order: Order,
    lines: tuple[RefundLine, ...],
    shipping: Money,
    reason: RefundReason,
    decision: Decision,
) -> Refund:
    now = services.current().now()
    unasked = isinstance(decision, Approved)
    return Refund(
        refund_id=new_id("refund"),
        order_id=order.order_id,
        conversation_id=batch["conversation_id"],
        mail_id=batch["mail_ids"][-1],
        amount=_total(lines, shipping),
        shipping_minor=shipping.minor,
        lines=lines,
        item_ids=tuple(_item_ids(order)[line.line_no] for line in lines),
        reason=reason,
        status=RefundStatus.APPROVED if unasked else RefundStatus.AWAITING_APPROVAL,
        requested_at=now,
        policy_reasons=(
            tuple(each.value for each in decision.reasons)
            if isinstance(decision, NeedsManager)
            else ()
        ),
        decided_by=audit.POLICY if unasked else None,
        decided_at=now if unasked else None,
    )


def _total(lines: Sequence[RefundLine], shipping: Money) -> Money:
    return Money(sum(line.amount.minor for line in lines) + shipping.minor, shipping.currency)


def _record_refund(
    connection: sa.Connection, refund: Refund, order: Order, key: str, facts: RefundFacts
) -> None:
    live = services.current()
    refunds.record(connection, refund, key, _plain(facts), _item_ids(order))
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        approvals.request(
            connection,
            refund.refund_id,
            live.now(),
            live.now() + live.waits.approval_expiry,
        )
    audit.record(
        connection,
        live.now(),
        audit.POLICY,
        f"refund {refund.status.value}",
        refund.refund_id,
        {"order_id": order.order_id, "amount": str(refund.amount)},
    )
    live.doorbell.ring_refund(connection, refund.refund_id, None)


def _plain(facts: RefundFacts) -> dict[str, Any]:
    return {
        "amount": str(facts.amount),
        "remaining": str(facts.remaining),
        "granted_unasked": str(facts.granted_unasked),
        "order_status": facts.order_status.value,
        "delivered_at": facts.delivered_at.isoformat() if facts.delivered_at else None,
        "reason": facts.reason.value,
        "refused_before": facts.refused_before,
    }


def _proposed_output(refund: Refund, order: Order) -> dict[str, Any]:
    if refund.decided_by == audit.POLICY and refund.status is not RefundStatus.FAILED:
        return tool_outputs.approved_output(refund, order)
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        return tool_outputs.needs_manager_output(refund, order)
    return tool_outputs.already_requested_output(refund, order)


def _item_ids(order: Order) -> dict[int, str]:
    return {line.line_no: line.item_id for line in order.lines}


def _proposal_key(batch: Batch, order_id: str, wanted: Sequence[WantedItem]) -> str:
    items = sorted((want.item_id, want.quantity or 0) for want in wanted)
    text = json.dumps([batch["conversation_id"], batch["mail_ids"][0], order_id, items])
    return hashlib.sha256(text.encode()).hexdigest()


def _customer(connection: sa.Connection, batch: Batch) -> str:
    return conversations.load(connection, batch["conversation_id"]).customer_email
