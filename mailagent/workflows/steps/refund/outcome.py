"""Effects of the refund workflow once it is over: telling the customer, and people where it failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.refunds.receipt import seconds_to_wait
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound, outbound
from mailagent.store.refunds import order_rows, refunds
from mailagent.workflows.steps.recording import async_step

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
        order_rows.lock_row_of_refund(connection, refund_id)
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
        if refund.returned and refunds.list_told_before_return(connection, refund_id):
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
    return services.current().doorbell.is_answering(connection, refund.conversation_id)


def _give_to_team(connection: sa.Connection, refund: Refund) -> list[str]:
    """Write the case of a failed refund to the team; once, and once more if money turns out to have
    been given back after all. A replay must not take from the agent what the team gave back to it."""
    live = services.current()
    matter = f"failed:{refund.refund_id}"
    if refund.returned is not None:
        matter = f"returned:{refund.refund_id}:{refund.returned.minor}"
    if refund.part_paid is not None:
        matter += f":{refund.part_paid.minor}"
    conversation = conversations.lock(connection, refund.conversation_id)
    written = outbound.list_of_matter(connection, conversation.conversation_id, matter)
    if written:
        return written
    failed, returned = HandOverReason.PAYMENT_FAILED, HandOverReason.PAYMENT_RETURNED
    why = (returned if refund.returned else failed).value
    conversations.hand_over(connection, conversation.conversation_id, why, live.now())
    return mailers.write_to_team(connection, conversation, why, None, matter)
