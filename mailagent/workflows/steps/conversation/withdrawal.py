"""A customer's change of mind: refunds that wait for a manager are withdrawn, the others stay.

A manager may click at the same moment: both lock the order and then the refund, and the second one
finds what the first one did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import tool_outputs, withdrawal_outputs
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.engine import REFUND, run_id_of
from mailagent.store import audit
from mailagent.store.refunds import orders, refunds
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.tool_rights import is_waiting

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
    run_id = live.doorbell.ring_refund(connection, refund_id, asked_by, "withdrawn")
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
        return withdrawal_outputs.withdrawn_output(order_id, gone, settled)
    if settled:
        return withdrawal_outputs.too_late_output(order_id, settled)
    return withdrawal_outputs.nothing_waits_output(order_id)
