"""The tool that withdraws the refunds of an order that still wait for a manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.engine import REFUND, run_id_of
from mailagent.store import audit
from mailagent.store.refunds import orders, refunds
from mailagent.workflows.steps.conversation.batch import Batch, is_waiting
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    Output,
    Tool,
    case_closed_output,
    no_such_order_output,
    not_verified_output,
)

_SETTLED = (RefundStatus.APPROVED, RefundStatus.PAID)


class WithdrawRefund(Arguments):
    order_id: Id


def withdraw_refund(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Withdraw the refunds of one order that wait for a decision, whoever of its threads asked.

    What is approved or paid is not touched. The answer is read from the rows, so the same call again
    is answered alike.
    """
    if not batch["verified"]:
        return not_verified_output()
    with services.current().database.transaction() as connection:
        order = orders.lock_of_conversation(
            connection, arguments["order_id"], batch["conversation_id"]
        )
        if order is None:
            return no_such_order_output(arguments["order_id"])
        if not is_waiting(connection, batch):
            return case_closed_output()
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
        return withdrawn_output(order_id, gone, settled)
    if settled:
        return too_late_output(order_id, settled)
    return nothing_waits_output(order_id)


def withdrawn_output(order_id: str, gone: Sequence[Refund], others: Sequence[Refund]) -> Output:
    """Return the answer when `gone` were withdrawn, now or before; `others` are approved or paid."""
    say = "The request is withdrawn: name the fact. They can ask again in a new mail."
    if others:
        say += " What stands under not_withdrawn was approved or paid before and stays as it is."
    return {
        "outcome": "withdrawn",
        "facts": [f"refund/{order_id}"],
        "order_id": order_id,
        "withdrawn": [_amount(refund) for refund in gone],
        "not_withdrawn": [_state(refund) for refund in others],
        "say": say,
    }


def too_late_output(order_id: str, refunds: Sequence[Refund]) -> Output:
    """Return the answer when every refund of the order is approved or paid; the newest is told of."""
    return {
        "outcome": "too_late",
        "facts": [f"not_withdrawn/{order_id}", f"refund/{order_id}"],
        "order_id": order_id,
        "not_withdrawn": [_state(refund) for refund in refunds],
        "say": "Nothing was withdrawn, and nothing can be any more: name the fact not_withdrawn.",
    }


def nothing_waits_output(order_id: str) -> Output:
    """Return the answer when no refund of the order waits, is approved or was paid."""
    return {
        "outcome": "nothing_waits",
        "facts": [f"nothing_waits/{order_id}", f"refund/{order_id}"],
        "order_id": order_id,
        "say": "No refund of this order waits for a decision: name the fact nothing_waits.",
    }


def _amount(refund: Refund) -> str:
    return str(refund.amount)


def _state(refund: Refund) -> Output:
    return {"amount": _amount(refund), "status": refund.status.value}


TOOL = Tool(
    "withdraw_refund",
    WithdrawRefund,
    "Withdraw the customer's requests for a refund of one order that still wait for a manager."
    " Use it only when the customer says that they do not want the refund any more.",
    withdraw_refund,
)
