"""Many at once on one order: exactly what was paid can come back, whoever is first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import order
from tests.harness import Harness

MANY = 40


def batches(shop: Harness, count: int) -> list[Batch]:
    """Let the customer ask in many threads at once."""
    for number in range(count):
        shop.write("Refund my order W1001", subject=f"thread {number}")
    rows = shop.rows("SELECT conversation_id FROM conversations")
    found = [take_batch(row.conversation_id) for row in rows]
    return [batch for batch in found if batch is not None]


def propose_all(asked: list[Batch], quantity: int | None) -> list[dict[str, Any]]:
    wanted = {
        "order_id": "W1001",
        "items": [{"item_id": "K1", "quantity": quantity}],
        "reason": "damaged",
    }
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda batch: propose_refund(batch, wanted), asked))


def test_forty_requests_for_one_kettle_refund_it_once(shop: Harness) -> None:
    shop.stock(order())
    outputs = propose_all(batches(shop, MANY), None)
    outcomes = [output["outcome"] for output in outputs]
    assert outcomes.count("approved") == 1
    assert outcomes.count("already_requested") == MANY - 1
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 49_99


def test_forty_requests_for_a_cup_each_refund_one_and_ask_a_manager_once(shop: Harness) -> None:
    cups = {"item_id": "K1", "name": "Cup", "quantity": 10, "unit_price": "5.00"}
    payment = {"payment_id": "p", "method": "card", "amount": "50.00"}
    shop.stock(order(items=[cups], payments=[payment]))
    outcomes = [output["outcome"] for output in propose_all(batches(shop, MANY), 1)]
    assert outcomes.count("already_requested") == MANY - 2
    assert [refund.status for refund in shop.refunds()] == ["approved", "awaiting_approval"]
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 10_00
