"""A camera with a lens and straps, and proposals to refund them."""

from __future__ import annotations

from typing import Any

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store.mail import inbound
from mailagent.store.refunds import approvals, refunds
from mailagent.workflows.steps.conversation.batch import Batch
from tests.cast import MONA, order
from tests.harness import Harness
from tests.round_trips.approvals import decide
from tests.workflows import proposals

CAMERA, LENS, STRAPS = "CAM", "LENS", "STRAP"
BOTH = ((CAMERA, None), (LENS, None))


def camera_order(**changes: Any) -> Order:
    """A camera and a lens that are dear together but not alone, and ten straps."""
    items = [
        {"item_id": CAMERA, "name": "Camera", "quantity": 1, "unit_price": "640.00"},
        {"item_id": LENS, "name": "Lens", "quantity": 1, "unit_price": "480.00"},
        {"item_id": STRAPS, "name": "Strap", "quantity": 10, "unit_price": "110.00"},
    ]
    paid = {"payment_id": "pay_W1010", "method": "card", "amount": "2220.00"}
    return order("W1010", **({"items": items, "payments": [paid]} | changes))


def batch_of(shop: Harness, subject: str = "My camera", **changes: Any) -> Batch:
    """Let Ada write; return what the next run of that thread works on."""
    text = "I want my money back for W1010."
    return proposals.write(shop, subject=subject, text=text, **changes)


def later_batch(shop: Harness, batch: Batch, is_answered: bool = True) -> Batch:
    """Let Ada write once more in the same thread, after an answer or before."""
    if is_answered:
        answer(shop, batch)
    (thread,) = shop.rows(
        "SELECT reply_token FROM conversations WHERE conversation_id = :id",
        id=batch["conversation_id"],
    )
    return batch_of(shop, to=f"case+{thread.reply_token}@shop.example")


def answer(shop: Harness, batch: Batch, many: int = 1) -> None:
    """Deal with the first mails of a batch."""
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"][:many], "a test")


def propose(batch: Batch, *items: tuple[str, int | None]) -> dict[str, Any]:
    return proposals.propose(batch, "W1010", *items, reason="changed_mind")


def end(shop: Harness, status: RefundStatus, **values: Any) -> Refund:
    """Take the newest refund, which waits for a manager, to another state."""
    refund = shop.refunds()[-1]
    assert refund.status is RefundStatus.AWAITING_APPROVAL
    with shop.live.database.transaction() as connection:
        refunds.move(connection, refunds.lock(connection, refund.refund_id), status, **values)
    return refund


def reject(shop: Harness) -> None:
    """Have the manager say no to the newest refund, on the page."""
    click(shop, "reject")
    assert shop.refunds()[-1].status is RefundStatus.REJECTED


def click(shop: Harness, decision: str, manager: str = MONA, **form: str) -> None:
    """Have a manager decide on the newest refund, on the page."""
    refund = shop.refunds()[-1]
    with shop.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, refund.refund_id)
    assert approval is not None
    decide(shop, shop.live.links.sign_approval(approval.approval_id, manager), decision, **form)


def page_of(shop: Harness) -> str:
    """The page on which the newest refund is decided."""
    with shop.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, shop.refunds()[-1].refund_id)
    assert approval is not None
    link = shop.live.links.sign_approval(approval.approval_id, MONA)
    return shop.client.get(link.replace(shop.live.shop.public_url, "")).text
