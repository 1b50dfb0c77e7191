"""Steps of the refund workflow around the decision: claim the refund, ask managers, read the decision,
expire, and tell the customer the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.refunds.refund import Refund, RefundStatus, seconds_to_wait
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound, outbound
from mailagent.store.refunds import approvals, orders, pending_notices, refunds
from mailagent.workflows.steps.recording import async_step, declare_marks, mark

# A wake-up comes at once; the sweep repeats one that was missed. It looks this often anyway,
# and not oftener: each look is three records, which a restart reads again for every refund that waits.
LONGEST_SLEEP_SECONDS = 6 * 3600.0
# Where nobody may decide: whoever is made a manager is to be asked soon.
NOBODY_SLEEP_SECONDS = 3600.0

declare_marks("claim_refund", "claimed")


@async_step
def claim_refund(refund_id: str) -> State:
    """Make this run the one that wake-ups for the refund reach. If it waits for a manager, look as
    `look_at_decision` does, which writes to whoever is to decide: from now on no wake-up is missed."""
    with services.current().database.transaction() as connection:
        status = refunds.claim(connection, refund_id, DBOS.workflow_id or "")
    mark("claim_refund", "claimed")
    if status is not RefundStatus.AWAITING_APPROVAL:
        return state_of(status)
    return _look(refund_id)


@async_step
def look_at_decision(refund_id: str) -> State:
    """Look whether a manager has decided; when the date has passed, expire the refund: closed.

    While it waits, whoever is due is asked or reminded: the next manager after a while, a second one
    where the first has approved and the policy wants two.
    """
    with services.current().database.snapshot() as connection:
        status = refunds.status_of(connection, refund_id)
    if status is not RefundStatus.AWAITING_APPROVAL:
        return state_of(status)  # what is decided waits no more
    return _look(refund_id)


def _look(refund_id: str) -> State:
    live = services.current()
    with live.database.transaction() as connection:
        # The order first, as everywhere: to expire a refund changes what its order has left.
        orders.lock_row_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.AWAITING_APPROVAL:
            return state_of(refund.status)
        standing = approvals.find_standing_of_refund(connection, refund_id)
        if standing is None:
            raise LookupError(f"refund {refund_id} waits for a manager but has no approval")
        if live.now() < standing.approval.expires_at:
            return _wait(connection, refund, standing)
        refunds.move(connection, refund, RefundStatus.EXPIRED, decided_at=live.now())
        audit.record(connection, live.now(), audit.CLOCK, "refund expired", refund_id)
        mailers.write_expired(connection, refund, standing.first)
    return state_of(RefundStatus.EXPIRED)


def _wait(connection: sa.Connection, refund: Refund, standing: approvals.Standing) -> State:
    """Ask and remind whoever is due; say what is to be sent, and when there is more to do."""
    now = services.current().now()
    asking = mailers.ask_managers(connection, refund, standing)
    longest = LONGEST_SLEEP_SECONDS if asking.candidates else NOBODY_SLEEP_SECONDS
    wait_seconds = max(0.0, min((asking.due.next_at - now).total_seconds(), longest))
    asked = mailers.list_unsent_requests(connection, refund.refund_id)
    return state_of(refund.status, wait_seconds, asked)


# --- outcome --------------------------------------------------------------------------------------


_TEMPLATES = {
    RefundStatus.REJECTED: "refund_rejected",
    RefundStatus.EXPIRED: "refund_expired",
    RefundStatus.FAILED: "refund_failed",
}


class Awaiting(TypedDict):
    """How long the receipt of a refund waits for others that the same mail may lead to."""

    wait_seconds: float


@async_step
def tell_customer(refund_id: str) -> list[str] | Awaiting:
    """Write to the customer how the refund ended, and return the mails to send; a failed one also goes to the
    team, as a case. Refunds of one mail that are paid at about the same time share a receipt, so it may have to
    wait."""
    live = services.current()
    with live.database.transaction() as connection:
        # The order first, as everywhere: one that is replaced meanwhile would be read half old, half new.
        orders.lock_row_of_refund(connection, refund_id)
        refund, others = refunds.lock_of_mail(connection, refund_id)
        template = _TEMPLATES.get(refund.status)
        if refund.status is RefundStatus.PAID:
            receipt = _receipt(connection, refund, others)
            if not isinstance(receipt, str):
                return receipt
            outbound_ids = [receipt]
        elif template is not None:
            outbound_ids = [mailers.write_refund_outcome(connection, refund, template)]
        else:
            return []
        if refund.returned and pending_notices.list_told_before_return(connection, refund_id):
            outbound_ids.append(mailers.write_refund_returned(connection, refund))
        if refund.status is RefundStatus.FAILED:
            outbound_ids += _give_to_team(connection, refund)
    return outbound_ids


def _receipt(connection: sa.Connection, refund: Refund, others: Sequence[Refund]) -> str | Awaiting:
    """Return the receipt that tells of a paid refund, written now if there is none; or how long it waits."""
    if refund.receipt_id is not None:
        return refund.receipt_id
    keys = {each.refund_id: f"outcome:{each.refund_id}" for each in (refund, *others)}
    told = outbound.list_recorded(connection, keys.values()) if others else frozenset[str]()
    if keys[refund.refund_id] in told:
        return mailers.write_receipt(connection, refund, ())
    now, paid_at = services.current().now(), refund.paid_at
    seconds = seconds_to_wait(paid_at or now, others, _is_answering(connection, refund), now)
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
    """Whether the agent is at the mail that asked for it. What a manager approved was answered before."""
    if refund.decided_by != audit.POLICY:
        return False
    mail = inbound.find(connection, refund.mail_id)
    if mail is None or not mail.awaits_agent:
        return False
    return services.current().workflow_client.queue.is_answering(connection, refund.conversation_id)


def _give_to_team(connection: sa.Connection, refund: Refund) -> list[str]:
    """Write the case of a failed refund to the team; once, and once more if money turns out to have
    been given back after all. A replay must not take from the agent what the team gave back to it."""
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


# --- state ----------------------------------------------------------------------------------------


class State(TypedDict):
    """Where a refund stands, and how long its run may wait before it looks again. `outbound_ids`: mail to be
    sent first, such as the request to a manager. `wakes`: whether a message ends the wait."""

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
    """Return a state as the run records it."""
    return State(
        status=status.value,
        wait_seconds=wait_seconds,
        outbound_ids=list(outbound_ids),
        wakes=wakes,
    )
