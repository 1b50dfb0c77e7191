"""What people of the shop read when a refund is closed because nobody decided on it."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.escalation import Question
from mailagent.domain.refunds.refund import Refund
from mailagent.mailers.notices import Notice, write_notice
from mailagent.mailers.unread import list_helpers
from mailagent.store.refunds import approval_requests
from mailagent.store.refunds.approvals import RecordedDecision


def write_expired(
    connection: sa.Connection, refund: Refund, first: RecordedDecision | None
) -> None:
    """Tell the managers who were asked that nobody decided in time, also those who were passed over;
    where nobody else was waited for, people beside them, too. `first`: the first of two approvals, if
    somebody gave it."""
    asked = approval_requests.list_asks(connection, refund.refund_id)
    named = [*([first.decided_by] if first else []), *(each.manager_email for each in asked)]
    managers = services.current().shop.manager_emails
    told = dict.fromkeys(each for each in named if each in managers)
    last = [each for each in asked if each.question is Question.COUNTERSIGN or not first]
    if not any(each.stands for each in last):
        told |= dict.fromkeys(list_helpers(managers))
    missing = "a second manager approved" if first else "anybody decided"
    notice = Notice(
        f"expired:{refund.refund_id}",
        f"Closed without a decision: refund of {refund.amount}, order {refund.order_id}",
        [
            f"The date passed before {missing}, so the request is closed without a refund.",
            "The customer is told by mail, and may ask again.",
        ],
    )
    for outbound_id in write_notice(connection, notice, tuple(told), refund.conversation_id):
        services.current().doorbell.ring_delivery(connection, outbound_id)
