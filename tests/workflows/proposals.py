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


def write(
    shop: Harness,
    customer: str = ADA,
    subject: str = "My kettle",
    text: str = "My kettle broke.",
    **changes: Any,
) -> Batch:
    """Let a customer write; return what the next run of that thread works on."""
    mail = shop.write(text, **{"from_address": customer, "subject": subject, **changes})
    return batch_of(shop, mail.message_id)


def propose(
    batch: Batch,
    order_id: str,
    *items: tuple[str, int | None],
    reason: str = "damaged",
) -> dict[str, Any]:
    """Propose to refund so many of these items, all that is left if no number is given; a kettle by default."""
    wanted = [
        {"item_id": item_id, "quantity": number} for item_id, number in items or [("K1", None)]
    ]
    return use(propose_refund, batch, {"order_id": order_id, "items": wanted, "reason": reason})
