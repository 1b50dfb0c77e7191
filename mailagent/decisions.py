"""Applies managers' decisions to a refund once they can no longer be taken back. Lock the order and the refund
first.

Both the approval page and the refund's workflow come here: the page after a click, the workflow after the wait.
Also refuses a refund that was approved, as long as no gateway was asked to pay it.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from mailagent import mailers, remedies, services
from mailagent.domain.deadline import end_of_day
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.money import Money
from mailagent.domain.refunds.offer import Offer, OfferStatus, part_of_price, units_of
from mailagent.domain.refunds.policy import KeepOffers
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.engine import REFUND, run_id_of
from mailagent.proposals.returns import await_goods
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations
from mailagent.store.refunds import offers, orders, policies, refund_payments, refunds
from mailagent.store.refunds.approvals import RecordedDecision, Standing


def apply_decisions(connection: sa.Connection, refund: Refund, standing: Standing) -> Refund:
    """Apply each decision that can no longer be taken back, and return the refund as it is then. A second call
    changes nothing."""
    now = services.current().now()
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return refund
    for each in (standing.first, standing.second):
        if each is not None and not each.can_be_undone(now):
            refund = _lower(connection, refund, each)
    final = standing.final(refund.four_eyes)
    if final is not None and not final.can_be_undone(now):
        _conclude(connection, refund, final)
    return refunds.load(connection, refund.refund_id)


def _lower(connection: sa.Connection, refund: Refund, decision: RecordedDecision) -> Refund:
    """Record that fewer units or less money is approved. A second manager can only lower that further, so what
    is left is cancelled at once."""
    if decision.amount_minor is None:
        return refund
    amount = Money(decision.amount_minor, refund.amount.currency)
    refunds.lower(connection, refund, amount, decision.units)
    lowered = refunds.load(connection, refund.refund_id)
    remedies.narrow(connection, refund, lowered)
    return lowered


def _conclude(connection: sa.Connection, refund: Refund, decision: RecordedDecision) -> None:
    refunds.move(
        connection,
        refund,
        RefundStatus.APPROVED if decision.approves else RefundStatus.REJECTED,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        note=decision.note,
        despite_cancel=refund.despite_cancel or decision.despite_cancel,
        approved_for=decision.approved_for,
    )
    if decision.approves:
        approved = refunds.load(connection, refund.refund_id)
        await_goods(connection, approved, orders.load(connection, refund.order_id))
        remedies.supersede(connection, approved)
    else:
        remedies.resume(connection, refund)
    if decision.offer_percent is not None:
        _offer(connection, refund, decision, decision.offer_percent)


def _offer(
    connection: sa.Connection, refund: Refund, decision: RecordedDecision, percent: int
) -> None:
    """Offer part of the price of what a manager does not refund. The customer accepts it by an answer."""
    live = services.current()
    rules, now = live.policy.keep_offers or KeepOffers({}), live.now()
    chosen = refund.covering(decision.units)
    offer = Offer(
        offer_id=new_id("offer"),
        order_id=refund.order_id,
        conversation_id=refund.conversation_id,
        mail_id=refund.mail_id,
        items=units_of(chosen.item_ids, chosen.lines),
        reason=refund.reason,
        percent=percent,
        amount=part_of_price(chosen, percent),
        status=OfferStatus.OPEN,
        offered_by=decision.decided_by,
        policy_version=policies.record(connection, live.policy, now),
        offered_at=now,
        expires_at=end_of_day(now + timedelta(days=rules.valid_days)),
        instead_of=refund.refund_id,
    )
    offers.record(connection, offer, f"instead:{refund.refund_id}")
    details = {"order_id": offer.order_id, "percent": percent, "amount": str(offer.amount)}
    action: audit.Action = "part of the price offered"
    audit.record(connection, now, decision.decided_by, action, offer.conversation_id, details)


# --- refuse after all -----------------------------------------------------------------------------


def can_be_refused(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether an approved refund can still be refused: no run is at it, and we have certainly not asked
    a gateway for any of it."""
    if refund.status is not RefundStatus.APPROVED:
        return False
    tables = services.current().workflow_client.tables
    run_id = refund.run_id or run_id_of(REFUND, refund.refund_id)
    is_at_work = tables.find_active(connection, run_id) is not None
    return not is_at_work and not refund_payments.may_be_asked(connection, refund.refund_id)


def refuse(connection: sa.Connection, refund: Refund, manager: str, why: str) -> bool:
    """Record that a manager rejects a locked refund that was approved, give the team the case, and enqueue a
    run that tells the customer and ends what waits for it. Return False, and change nothing, if it cannot be
    refused any more. A run that was resumed meanwhile asks no gateway after this."""
    if not can_be_refused(connection, refund):
        return False
    if not refund_payments.give_up(connection, refund.refund_id, why):
        return False
    now, details = services.current().now(), {"amount": str(refund.amount), "why": why}
    # No note: the reason is for the shop only.
    decided = {"decided_by": manager, "decided_at": now, "note": None}
    refunds.move(connection, refund, RefundStatus.REJECTED, **decided)
    audit.record(connection, now, manager, "refund rejected", refund.refund_id, details)
    remedies.wake(connection, refund, "refused")
    # The customer may have been asked for goods, or an exchange may have been given up for the money.
    conversation = conversations.lock(connection, refund.conversation_id)
    why_theirs, key = HandOverReason.REFUSED_AFTER_ALL, f"refused after all:{refund.refund_id}"
    mailers.hand_to_team(connection, conversation, why_theirs, key)
    return True
