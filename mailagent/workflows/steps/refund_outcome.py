"""Effects of the refund workflow once it is over: telling the customer, and people where it failed."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import letters, services
from mailagent.domain.conversation import HandOverReason
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.store import conversations, outbox, refunds
from mailagent.workflows.steps.recording import async_step

_TEMPLATES = {
    RefundStatus.PAID: "receipt",
    RefundStatus.REJECTED: "refund_rejected",
    RefundStatus.EXPIRED: "refund_expired",
    RefundStatus.FAILED: "refund_failed",
}


@async_step
def tell_customer(refund_id: str) -> list[str]:
    """Write to the customer how the refund ended; a failed one also goes to the team, as a case."""
    live = services.current()
    with live.database.transaction() as connection:
        refund = refunds.lock(connection, refund_id)
        template = _TEMPLATES.get(refund.status)
        if template is None:
            return []
        outbound_ids = [letters.write_refund_outcome(connection, refund, template)]
        if refund.returned and refunds.list_told_before_return(connection, refund_id):
            outbound_ids.append(letters.write_refund_returned(connection, refund))
        if refund.status is RefundStatus.FAILED:
            outbound_ids += _give_to_team(connection, refund)
    return outbound_ids


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
    written = outbox.list_of_matter(connection, conversation.conversation_id, matter)
    if written:
        return written
    failed, returned = HandOverReason.PAYMENT_FAILED, HandOverReason.PAYMENT_RETURNED
    why = (returned if refund.returned else failed).value
    conversations.hand_over(connection, conversation.conversation_id, why, live.now())
    return letters.write_to_team(connection, conversation, why, None, matter)
