"""Propose a refund for a mail."""

from __future__ import annotations

from typing import Any

from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import ADA
from tests.harness import Harness
from tests.tool_use import use


def batch_of(shop: Harness, message_id: str) -> Batch:
    """Return what the run of one mail's thread works on."""
    (mail,) = shop.rows(
        "SELECT conversation_id FROM inbound_mails WHERE message_id = :id", id=message_id
    )
    batch = take_batch(mail.conversation_id)
    assert batch is not None
    return batch


def write(shop: Harness, customer: str = ADA, subject: str = "My kettle") -> Batch:
    return batch_of(
        shop, shop.write("My kettle broke.", from_address=customer, subject=subject).message_id
    )


def propose(batch: Batch, order_id: str, quantity: int | None = None) -> dict[str, Any]:
    items = [{"item_id": "K1", "quantity": quantity}]
    return use(propose_refund, batch, {"order_id": order_id, "items": items, "reason": "damaged"})
