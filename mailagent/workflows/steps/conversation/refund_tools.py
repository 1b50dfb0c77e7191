"""The tools that propose and withdraw a refund: priced, decided and recorded under the order's lock.

Amounts and permissions come from rows, never from the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import tool_outputs
from mailagent.domain.operations.run_about import RunAbout
from mailagent.domain.refunds.duplicates import find_covering, find_holding
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Approved, Decision, Declined, NeedsManager
from mailagent.domain.refunds.policy_rules import RefundFacts, decide
from mailagent.domain.refunds.refund import (
    REFUSED,
    ItemsProblem,
    Refund,
    RefundReason,
    RefundStatus,
    WantedItem,
    price_lines,
)
from mailagent.engine import REFUND, run_id_of
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.mail import inbound
from mailagent.store.refunds import approvals, orders, policies, refunds
from mailagent.workflows.steps.conversation.batch import Batch, is_waiting
from mailagent.workflows.steps.refund.facts import (
    MAILS_WITH_PHOTOS_MAX,
    Asked,
    count_photos,
    gather_facts,
    lock_caps,
    plain_facts,
    shipping_of,
)


def propose_refund(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Decide on what the model proposes, under the order's lock, and record what was decided.

    The amount is computed, the policy decides, and the refund's run is woken in the same transaction.
    """
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    wanted = [WantedItem(**item) for item in arguments["items"]]
    with services.current().database.transaction() as connection:
        conversation_id = batch["conversation_id"]
        order = orders.lock_of_conversation(connection, arguments["order_id"], conversation_id)
        if order is None:
            return tool_outputs.no_such_order_output()
        key = _proposal_key(batch, order.order_id, wanted)
        earlier, same = refunds.list_of_proposal(connection, order.order_id, key)
        if same is not None:
            before = [refund for refund in earlier if refund.refund_id < same.refund_id]
            return _proposed_output(same, order, wanted, before)
        if not is_waiting(connection, batch):
            return tool_outputs.case_closed_output()
        newest = inbound.list_with_files(connection, conversation_id, MAILS_WITH_PHOTOS_MAX)
        reason, photos = RefundReason(arguments["reason"]), count_photos(newest)
        wish = _Wish(order, wanted, reason, key, earlier, photos)
        try:
            return _propose(connection, batch, wish)
        except ItemsProblem as problem:
            return tool_outputs.bad_items_output(problem)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the model proposes of a locked order, under which key; `earlier`: the order's refunds so far;
    `photos`: how many the customer sent."""

    order: Order
    wanted: Sequence[WantedItem]
    reason: RefundReason
    key: str
    earlier: Sequence[Refund]
    photos: int


def _propose(connection: sa.Connection, batch: Batch, wish: _Wish) -> dict[str, Any]:
    live = services.current()
    order, wanted, earlier = wish.order, wish.wanted, wish.earlier
    lines = price_lines(order, wanted, earlier)
    asked = Asked(order, lines, shipping_of(order, lines, earlier), wish.reason, earlier)
    same = _already_asked(batch, wanted, asked)
    if same is not None:
        output = tool_outputs.already_requested_output(same, order)
        return _with_earlier(output, same, order, wanted, earlier)
    lock_caps(connection, order)
    facts = gather_facts(connection, asked, wish.photos)
    decision = decide(facts, live.policy, live.now())
    version = policies.record(connection, live.policy, live.now())
    if isinstance(decision, Declined):
        _record_declined(connection, decision, batch, order, facts, version)
        return tool_outputs.declined_output(decision)
    refund = _refund(batch, asked, facts, decision, version)
    _record_refund(connection, refund, order, wish.key, facts)
    return _proposed_output(refund, order, wanted, earlier)


def _already_asked(batch: Batch, wanted: Sequence[WantedItem], asked: Asked) -> Refund | None:
    """Return the refund that answers what is wanted, so that nothing new is asked for.

    In answer to one mail an item is asked for once, whatever became of that: a model that goes to and
    fro, or contradicts itself, would otherwise be paid each time. Later, a refund that has all units
    answers, or one of the same items that still waits, or the same wish of this conversation that was
    refused. All else is the policy's, which has a manager look at units of the same item.
    """
    items = {want.item_id for want in wanted}
    touching = [refund for refund in reversed(asked.earlier) if items & set(refund.item_ids)]
    for refund in touching:
        if refund.mail_id in batch["mail_ids"]:
            return refund
    for refund in touching:
        if refund.holds_money and not asked.lines:
            return refund
        waits = refund.status is RefundStatus.AWAITING_APPROVAL
        if waits and not set(asked.item_ids).isdisjoint(refund.item_ids):
            return refund
        here = refund.conversation_id == batch["conversation_id"]
        if here and refund.status in REFUSED and refund.is_for(asked.lines):
            return refund
    return None


def _refund(
    batch: Batch, asked: Asked, facts: RefundFacts, decision: Decision, version: str
) -> Refund:
    now = services.current().now()
    order = asked.order
    unasked = isinstance(decision, Approved)
    return Refund(
        refund_id=new_id("refund"),
        order_id=order.order_id,
        conversation_id=batch["conversation_id"],
        mail_id=batch["mail_ids"][-1],
        amount=facts.amount,
        shipping_minor=asked.shipping.minor,
        short_minor=asked.worth.minor - facts.amount.minor,
        lines=asked.lines,
        item_ids=asked.item_ids,
        reason=asked.reason,
        status=RefundStatus.APPROVED if unasked else RefundStatus.AWAITING_APPROVAL,
        requested_at=now,
        policy_reasons=(
            tuple(each.value for each in decision.reasons)
            if isinstance(decision, NeedsManager)
            else ()
        ),
        decided_by=audit.POLICY if unasked else None,
        decided_at=now if unasked else None,
        four_eyes=isinstance(decision, NeedsManager) and decision.four_eyes,
        policy_version=version,
    )


def _record_declined(
    connection: sa.Connection,
    decision: Declined,
    batch: Batch,
    order: Order,
    facts: RefundFacts,
    version: str,
) -> None:
    audit.record(
        connection,
        services.current().now(),
        audit.POLICY,
        audit.DECLINED,
        order.order_id,
        {
            "reason": decision.reason.value,
            "mail_id": batch["mail_ids"][-1],
            "facts": plain_facts(facts),
            "policy_version": version,
        },
    )


def _record_refund(
    connection: sa.Connection, refund: Refund, order: Order, key: str, facts: RefundFacts
) -> None:
    live = services.current()
    refunds.record(connection, refund, key, plain_facts(facts), _item_ids(order))
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
    about = RunAbout(
        refund.conversation_id, refund.order_id, refund.refund_id, order.customer_email
    )
    live.workflow_client.queue.enqueue_refund(connection, refund.refund_id, None, about=about)


def _proposed_output(
    refund: Refund, order: Order, wanted: Sequence[WantedItem], earlier: Sequence[Refund]
) -> dict[str, Any]:
    if refund.decided_by == audit.POLICY and refund.status is not RefundStatus.FAILED:
        output = tool_outputs.approved_output(refund, order)
    elif refund.status is RefundStatus.AWAITING_APPROVAL:
        output = tool_outputs.needs_manager_output(refund, order)
    else:
        output = tool_outputs.already_requested_output(refund, order)
    return _with_earlier(output, refund, order, wanted, earlier)


def _with_earlier(
    output: dict[str, Any],
    refund: Refund,
    order: Order,
    wanted: Sequence[WantedItem],
    earlier: Sequence[Refund],
) -> dict[str, Any]:
    """Return what is told of `refund`, with what earlier ones hold of the items that are wanted."""
    covering = find_covering(order, wanted, refund, earlier)
    same_items = find_holding([want.item_id for want in wanted], earlier)
    others = [each for each in same_items if each not in (*covering, refund)]
    return tool_outputs.with_earlier(output, covering, others, order)


def _item_ids(order: Order) -> dict[int, str]:
    return {line.line_no: line.item_id for line in order.lines}


def _proposal_key(batch: Batch, order_id: str, wanted: Sequence[WantedItem]) -> str:
    items = sorted((want.item_id, want.quantity or 0) for want in wanted)
    text = json.dumps([batch["conversation_id"], batch["mail_ids"][0], order_id, items])
    return hashlib.sha256(text.encode()).hexdigest()


# --- withdrawal -----------------------------------------------------------------------------------


_SETTLED = (RefundStatus.APPROVED, RefundStatus.PAID)


def withdraw_refund(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Withdraw the refunds of one order that wait for a decision, whoever of its threads asked.

    What is approved or paid is not touched. The answer is read from the rows, so the same call again
    is answered alike.
    """
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    with services.current().database.transaction() as connection:
        order = orders.lock_of_conversation(
            connection, arguments["order_id"], batch["conversation_id"]
        )
        if order is None:
            return tool_outputs.no_such_order_output()
        if not is_waiting(connection, batch):
            return tool_outputs.case_closed_output()
        for refund in refunds.list_of_order(connection, order.order_id):
            if refund.status is RefundStatus.AWAITING_APPROVAL:
                _withdraw(connection, refund.refund_id, batch)
        return _output(connection, batch, order.order_id)


def _withdraw(connection: sa.Connection, refund_id: str, batch: Batch) -> None:
    live = services.current()
    refund = refunds.lock(connection, refund_id)
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return
    refunds.move(
        connection,
        refund,
        RefundStatus.WITHDRAWN,
        decided_by=audit.CUSTOMER,
        decided_at=live.now(),
    )
    audit.record(
        connection,
        live.now(),
        audit.CUSTOMER,
        audit.WITHDRAWN,
        refund_id,
        {"amount": str(refund.amount), "mail_id": batch["mail_ids"][-1]},
    )
    asked_by = refund.run_id or run_id_of(REFUND, refund_id)
    run_id = live.workflow_client.queue.enqueue_refund(connection, refund_id, asked_by, "withdrawn")
    refunds.claim(connection, refund_id, run_id)


def _output(connection: sa.Connection, batch: Batch, order_id: str) -> dict[str, Any]:
    known = refunds.list_of_order(connection, order_id)
    gone = [refund for refund in known if refund.status is RefundStatus.WITHDRAWN]
    settled = [refund for refund in known if refund.status in _SETTLED]
    if settled:
        # An older one says nothing of those that stay: whoever writes now means them.
        by_these = audit.subjects_of_mails(
            connection, [refund.refund_id for refund in gone], audit.WITHDRAWN, batch["mail_ids"]
        )
        gone = [refund for refund in gone if refund.refund_id in by_these]
    # What was withdrawn, and then asked for again and paid, is not withdrawn.
    last = max((refund.decided_at or refund.requested_at for refund in gone), default=None)
    if last and all(refund.requested_at <= last for refund in settled):
        return tool_outputs.withdrawn_output(order_id, gone, settled)
    if settled:
        return tool_outputs.too_late_output(order_id, settled)
    return tool_outputs.nothing_waits_output(order_id)
