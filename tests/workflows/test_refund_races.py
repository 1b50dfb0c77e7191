"""What the gateway said of a payment counts although nobody has followed it; what was asked is looked up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import (
    GatewayEvent,
    GatewayRefund,
    OutcomeUnknown,
    Refunded,
    RefundState,
)
from mailagent.store.refunds import external_refunds, gateway_events, order_import
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.tools.look_at_order import look_at_order
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import order
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.camera import click
from tests.workflows.paying import held, moody, pay
from tests.workflows.proposals import propose, write

PAID, REFERENCE = "pay_card", "re_1"


def paid_by(payment_id: str, order_id: str = "W1001") -> Order:
    paid = {"payment_id": payment_id, "method": "card", "amount": "49.99"}
    return order(order_id, payments=[paid])


def approved(shop: Harness) -> str:
    shop.stock(paid_by(PAID))
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    return shop.refunds()[-1].refund_id


def hear(shop: Harness, state: str) -> None:
    """Have a word of the gateway's on record that nobody has followed: its order came at the same moment."""
    now = shop.live.now()
    amount = Money(49_99, "USD")
    told = GatewayRefund(REFERENCE, "moody", (PAID,), amount, RefundState(state), why="closed")
    with shop.live.database.transaction() as connection:
        gateway_events.record(connection, "moody", GatewayEvent("evt", "told", now, (told,)), now)
        gateway_events.set_outcome(connection, "evt", "no such payment")


def test_a_word_that_nobody_has_followed_counts_before_anything_is_paid(shop: Harness) -> None:
    refund_id = approved(shop)
    hear(shop, "settled")
    assert pay(refund_id)["status"] == "failed"
    assert "refunded elsewhere" in str(shop.refunds()[-1].failure)
    assert shop.rows("SELECT 1 FROM ledger_entries") == []


@pytest.mark.parametrize("names", [PAID, "another"])
def test_a_word_of_failure_that_overtakes_the_answer_is_heeded_whatever_the_order_names_by_now(
    shop: Harness, names: str
) -> None:
    refund_id = approved(shop)

    def meanwhile() -> None:
        shop.stock(paid_by(names))
        hear(shop, "failed")

    moody(shop, {PAID: [Refunded(REFERENCE)]}, before=meanwhile)
    assert pay(refund_id)["status"] == "failed"
    assert held(shop) == 0
    assert shop.rows("SELECT returned_at FROM refund_payments")[0].returned_at is not None


def test_what_stands_written_is_looked_up_and_asked_under_its_key(shop: Harness) -> None:
    refund_id = approved(shop)
    moody(shop, {PAID: [OutcomeUnknown("time-out")]}, moved=frozenset({PAID}))
    assert pay(refund_id)["status"] == "approved"
    assert pay(refund_id)["status"] == "paid"
    (intent,) = shop.rows("SELECT idempotency_key, attempts FROM refund_payments")
    assert (intent.idempotency_key, intent.attempts) == (refund_id, 2)
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1


# --- refunded elsewhere ---------------------------------------------------------------------------


KETTLE = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "30.00"}


def kettles(refunded: str) -> Any:
    """Two kettles for 30.00 each, of whose payment so much was given back in the shop's own system."""
    paid = {"payment_id": "p", "method": "card", "amount": "60.00", "refunded": refunded}
    return order(items=[KETTLE], payments=[paid])


def test_a_unit_keeps_its_worth_until_the_payment_has_no_more(shop: Harness) -> None:
    shop.stock(kettles("30.00"))
    batch = write(shop)
    told = use(look_at_order, batch, {"order_id": "W1001"})
    assert (told["refunded_or_under_way"], told["refundable_in_all"]) == ("30.00 USD", "30.00 USD")
    told = propose(batch, "W1001", ("K1", 1))
    assert (told["outcome"], told["amount"]) == ("needs_manager", "30.00 USD")
    click(shop, "approve")
    again = propose(write(shop, subject="The other one"), "W1001", ("K1", 1))
    assert again["reason"] == "more_than_is_left_of_the_payment"


@pytest.mark.parametrize(
    ("in_the_file", "left_of_it"), [("30.00", 0), ("29.99", 0), ("45.00", 15_00)]
)
def test_what_the_file_says_of_ours_is_taken_off_where_the_operator_says_so(
    shop: Harness, in_the_file: str, left_of_it: int
) -> None:
    shop.stock(kettles("0.00"))
    propose(write(shop), "W1001", ("K1", 1))
    pay(shop.refunds()[0].refund_id)
    with shop.live.database.transaction() as connection:
        (payment,) = order_import.without_known_refunds(connection, kettles(in_the_file)).payments
    assert payment.refunded_minor == left_of_it


@pytest.mark.parametrize("in_the_file", ["30.00", "0.00", "45.00"])
def test_a_file_older_than_our_refund_takes_nothing_back_that_others_gave(
    shop: Harness, in_the_file: str
) -> None:
    shop.stock(kettles("30.00"))
    propose(write(shop), "W1001", ("K1", 1))
    click(shop, "approve")
    pay(shop.refunds()[0].refund_id)
    with shop.live.database.transaction() as connection:
        told = order_import.without_known_refunds(connection, kettles(in_the_file))
        order_import.save(connection, told, shop.live.now())
        assert external_refunds.given_back_minor(connection, "W1001") == 30_00
    again = propose(write(shop, subject="The other one"), "W1001", ("K1", 1))
    assert again["outcome"] == "declined"


# --- concurrency ----------------------------------------------------------------------------------


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
        return list(pool.map(lambda batch: use(propose_refund, batch, wanted), asked))


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
