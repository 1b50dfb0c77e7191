"""Steps of the refund workflow around the decision: claim the refund, ask managers, read the decision,
expire, and tell the customer the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import mailers, services
from mailagent import remedies as ending
from mailagent.decisions import apply_decisions
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.refunds.receipt import seconds_to_wait
from mailagent.domain.refunds.refund import REFUSED, Refund, RefundStatus
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound, outbound
from mailagent.store.refunds import approvals, offers, orders, refunds, remedies, settlements
from mailagent.workflows.steps.order_source import refresh_if_old
from mailagent.workflows.steps.recording import async_step, declare_marks, mark
from mailagent.workflows.steps.refund.condition import (
    advance_remedy,
    give_up_refused,
    hand_over_unpaid,
)

# A message ends the wait at once, and the sweep repeats a message that was missed. A shorter wait would add
# steps to the history of every waiting refund, and a restart reads all of them.
LONGEST_SLEEP_SECONDS = 6 * 3600.0
# The longest wait while no manager may decide: a new manager is asked within this time.
NO_MANAGER_SLEEP_SECONDS = 3600.0

declare_marks("claim_refund", "claimed")


@async_step
def claim_refund(refund_id: str) -> State:
    """Record this run as the receiver of the refund's wake-up messages, so that it misses none from
    now on. If the refund awaits approval, do what `look_at_decision` does."""
    with services.current().database.transaction() as connection:
        status = refunds.claim(connection, refund_id, DBOS.workflow_id or "")
    mark("claim_refund", "claimed")
    if status is not RefundStatus.AWAITING_APPROVAL:
        return state_of(status)
    return _look(refund_id)


@async_step
def look_at_decision(refund_id: str) -> State:
    """Read whether a manager has decided. A decision has an effect once the manager can no longer take it back.

    Without a decision, ask or remind the managers who are due: the next one after a while, or a second one if
    the policy wants two approvals. After the approval's date, expire the refund."""
    with services.current().database.snapshot() as connection:
        status = refunds.load(connection, refund_id).status
    if status is not RefundStatus.AWAITING_APPROVAL:
        return state_of(status)
    return _look(refund_id)


def _look(refund_id: str) -> State:
    live = services.current()
    _refresh_order(refund_id)
    # The shop may ship the items while a manager decides, so they are cancelled now.
    pause = None if _is_refused(refund_id) else advance_remedy(refund_id)
    with live.database.transaction() as connection:
        # The order is locked first, as everywhere: an expired refund changes what its order has left.
        orders.lock_row_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.AWAITING_APPROVAL:
            return state_of(refund.status)
        standing = approvals.load_standing_of_refund(connection, refund_id)
        refund = apply_decisions(connection, refund, standing)
        now, undo_until = live.now(), standing.undo_until(live.now())
        if refund.status is not RefundStatus.AWAITING_APPROVAL:
            return state_of(refund.status)
        if undo_until is not None:  # until then no other manager is asked
            return state_of(refund.status, (undo_until - now).total_seconds())
        if now < standing.approval.expires_at:
            return _wait(connection, refund, standing, pause or LONGEST_SLEEP_SECONDS)
        refunds.move(connection, refund, RefundStatus.EXPIRED, decided_at=now)
        ending.resume(connection, refund)
        audit.record(connection, now, audit.CLOCK, "refund expired", refund_id)
        mailers.write_expired(connection, refund, standing.first)
    return state_of(RefundStatus.EXPIRED)


def _is_refused(refund_id: str) -> bool:
    """Return whether a manager has rejected a refund, even if they may still take that back, or whether none
    decided in time. Then nothing more is cancelled for it."""
    live = services.current()
    with live.database.snapshot() as connection:
        refund = refunds.load(connection, refund_id)
        standing = approvals.load_standing_of_refund(connection, refund_id)
    final = standing.final(refund.four_eyes)
    is_late = final is None and live.now() >= standing.approval.expires_at
    return is_late or (final is not None and not final.approves)


def _refresh_order(refund_id: str) -> None:
    """Look the order up again, so that managers see it as it is now."""
    live = services.current()
    if live.order_source is None:
        return
    with live.database.snapshot() as connection:
        order_id = refunds.load(connection, refund_id).order_id
    refresh_if_old(order_id)


def _wait(
    connection: sa.Connection, refund: Refund, standing: approvals.Standing, pause: float
) -> State:
    """Ask and remind the managers who are due. Return the mails to send, and how long to wait."""
    now = services.current().now()
    asking = mailers.ask_managers(connection, refund, standing)
    longest = LONGEST_SLEEP_SECONDS if asking.candidates else NO_MANAGER_SLEEP_SECONDS
    wait_seconds = max(0.0, min((asking.due.next_at - now).total_seconds(), longest, pause))
    asked = mailers.list_unsent_requests(connection, refund.refund_id)
    return state_of(refund.status, wait_seconds, asked)


# --- outcome --------------------------------------------------------------------------------------


_TEMPLATES = {
    RefundStatus.REJECTED: "refund_rejected",
    RefundStatus.EXPIRED: "refund_expired",
    RefundStatus.FAILED: "refund_failed",
}


class Awaiting(TypedDict):
    """How long a receipt waits for other refunds of the same mail."""

    wait_seconds: float


@async_step
def tell_customer(refund_id: str) -> list[str] | Awaiting:
    """Write the mail that tells the customer how the refund ended, and for a failed refund mail to
    the team; return the ids of the mails to send. Refunds of one mail that are paid at about the
    same time share a receipt: return how long this one waits for the others."""
    live = services.current()
    with live.database.transaction() as connection:
        # The order is locked first, as everywhere: it may be replaced meanwhile.
        orders.lock_row_of_refund(connection, refund_id)
        refund, others = refunds.lock_of_mail(connection, refund_id)
        template = _TEMPLATES.get(refund.status)
        if refund.status in REFUSED:
            give_up_refused(connection, refund)
        elif refund.status is RefundStatus.PAID:
            hand_over_unpaid(connection, refund)
        if refund.receipt_id is not None:
            # A shared receipt has told the customer, even if the refund failed later.
            outbound_ids = [refund.receipt_id]
        elif refund.status is RefundStatus.PAID:
            receipt = _receipt(connection, refund, others)
            if not isinstance(receipt, str):
                return receipt
            outbound_ids = [receipt]
        elif (offer := offers.find_instead(connection, refund_id)) is not None:
            outbound_ids = [mailers.write_offer(connection, refund, offer)]
        elif template is not None:
            outbound_ids = [mailers.write_refund_outcome(connection, refund, template)]
        else:
            return []
        if refund.returned and refunds.list_told_before_return(connection, refund_id):
            outbound_ids.append(mailers.write_refund_returned(connection, refund))
        if refund.status is RefundStatus.FAILED:
            outbound_ids += _give_to_team(connection, refund)
    return outbound_ids


def _waits_for_people(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether a refund is paid only after goods are back, or a person has cancelled the order."""
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    return remedy is not None and remedy.is_open and remedy.status is not RemedyStatus.ASKED


def _receipt(connection: sa.Connection, refund: Refund, others: Sequence[Refund]) -> str | Awaiting:
    """Return the receipt of a paid refund, written now if there is none, or how long it waits."""
    keys = {each.refund_id: refunds.outcome_key(each.refund_id) for each in (refund, *others)}
    told = outbound.list_recorded(connection, keys.values()) if others else frozenset[str]()
    if keys[refund.refund_id] in told:
        return mailers.write_receipt(connection, refund, ())
    now, paid_at = services.current().now(), refund.paid_at
    soon = [each for each in others if not _waits_for_people(connection, each)]
    seconds = seconds_to_wait(paid_at or now, soon, _is_answering(connection, refund), now)
    if seconds:
        return Awaiting(wait_seconds=seconds)
    untold = [
        each
        for each in others
        if each.status is RefundStatus.PAID
        and each.receipt_id is None
        and keys[each.refund_id] not in told
    ]
    return mailers.write_receipt(connection, refund, untold)


def _is_answering(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether the agent is still answering the mail that asked for a refund. After a manager's decision
    the receipt does not wait for that answer."""
    if refund.decided_by != audit.POLICY:
        return False
    mail = inbound.find(connection, refund.mail_id)
    if mail is None or not mail.awaits_agent:
        return False
    return services.current().workflow_client.queue.is_answering(connection, refund.conversation_id)


def _give_to_team(connection: sa.Connection, refund: Refund) -> list[str]:
    """Hand the conversation of a failed refund over to the team: once, and again if more money was paid or came
    back to the shop since. A replay does not repeat this: the team may have given the conversation back."""
    live = services.current()
    incident = f"failed:{refund.refund_id}"
    if refund.returned is not None:
        incident = f"returned:{refund.refund_id}:{refund.returned.minor}"
    if refund.part_paid is not None:
        incident += f":{refund.part_paid.minor}"
    conversation = conversations.lock(connection, refund.conversation_id)
    written = outbound.list_by_subject(connection, conversation.conversation_id, incident)
    if written:
        return written
    failed, returned = HandOverReason.PAYMENT_FAILED, HandOverReason.PAYMENT_RETURNED
    why = (returned if refund.returned else failed).value
    conversations.hand_over(connection, conversation.conversation_id, why, live.now())
    return mailers.write_to_team(connection, conversation, why, None, incident)


def promise(refund_id: str) -> None:
    """Tell the customer, once, by when the shop pays what the ledger has recorded of a refund."""
    live = services.current()
    with live.database.transaction() as connection:
        promised = settlements.list_promised(connection, refund_id)
        if not promised or outbound.is_recorded(connection, refunds.promise_key(refund_id)):
            return
        orders.lock_row_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        outbound_id = mailers.write_promise(connection, refund, promised)
        live.workflow_client.queue.enqueue_delivery(connection, outbound_id)


# --- state ----------------------------------------------------------------------------------------


class State(TypedDict):
    """The state of a refund, and how long its run waits before it reads it again. `outbound_ids`: mails to send
    first, such as the request to a manager. `wakes`: whether a message ends the wait."""

    status: str
    wait_seconds: float
    outbound_ids: list[str]
    wakes: bool


def state_of(
    status: RefundStatus,
    wait_seconds: float = 0,
    outbound_ids: Sequence[str] = (),
    wakes: bool = True,
) -> State:
    """Return the state of a refund for the workflow's body. `wait_seconds` 0: do not wait."""
    return State(
        status=status.value,
        wait_seconds=wait_seconds,
        outbound_ids=list(outbound_ids),
        wakes=wakes,
    )
