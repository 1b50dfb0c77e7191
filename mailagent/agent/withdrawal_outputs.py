"""What withdraw_refund answers: what became of each refund of the order, as the rows have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mailagent.domain.refunds.refund import Refund, RefundStatus

Output = dict[str, Any]

_TOO_LATE: Mapping[RefundStatus, str] = {
    RefundStatus.APPROVED: "It is approved and on its way, and cannot be taken back here. Tell the"
    " customer so; a receipt follows by mail once it is paid.",
    RefundStatus.PAID: "It was paid, and cannot be taken back here. Tell the customer so; the"
    " receipt went to them by mail.",
}


def withdrawn_output(order_id: str, gone: Sequence[Refund], others: Sequence[Refund]) -> Output:
    """Return the answer when `gone` were withdrawn, now or before; `others` are approved or paid."""
    say = (
        f"Tell the customer that their request for a refund on order {order_id} is withdrawn, as they"
        " wished: nobody decides on it any more and no money is sent for it. If they want it after"
        " all, they can ask again in a new mail."
    )
    if others:
        say += " What stands under not_withdrawn was approved or paid before and stays as it is."
    return {
        "outcome": "withdrawn",
        "order_id": order_id,
        "withdrawn": [_amount(refund) for refund in gone],
        "not_withdrawn": [_state(refund) for refund in others],
        "say": say,
    }


def too_late_output(order_id: str, refunds: Sequence[Refund]) -> Output:
    """Return the answer when every refund of the order is approved or paid; the newest is told of."""
    return {
        "outcome": "too_late",
        "order_id": order_id,
        "not_withdrawn": [_state(refund) for refund in refunds],
        "say": f"Nothing was withdrawn. {_TOO_LATE[refunds[-1].status]}",
    }


def nothing_waits_output(order_id: str) -> Output:
    """Return the answer when no refund of the order waits, is approved or was paid."""
    return {
        "outcome": "nothing_waits",
        "order_id": order_id,
        "say": f"No refund of order {order_id} waits for a decision, so there is nothing to withdraw."
        " Do not say or hint that money was or will be sent.",
    }


def _amount(refund: Refund) -> str:
    return str(refund.amount)


def _state(refund: Refund) -> Output:
    return {"amount": _amount(refund), "status": refund.status.value}
