"""How many statements a refund costs; and that what is asked for only where there is any is found there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mailagent.domain.order import Order
from mailagent.domain.payment import OutcomeUnknown, Refunded
from mailagent.domain.refund import RefundStatus
from mailagent.store import gateway_events
from tests.cast import order
from tests.stage import Stage
from tests.workflows.test_asking import statements
from tests.workflows.test_policy_facts import propose, write
from tests.workflows.test_refund import held, moody, pay, tell

PAID, REFERENCE = "pay_card", "re_1"


def paid_by(payment_id: str, order_id: str = "W1001") -> Order:
    paid = {"payment_id": payment_id, "method": "card", "amount": "49.99"}
    return order(order_id, payments=[paid])


def approved(shop: Stage) -> str:
    shop.stock(paid_by(PAID))
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    return shop.refunds()[-1].refund_id


def hear(shop: Stage, state: str) -> None:
    """Have a word of the gateway's on record that nobody has followed: its order came at the same moment."""
    now = shop.live.now()
    told = {"reference": REFERENCE, "payment_ids": [PAID], "amount": "49.99 USD"}
    fact = {**told, "state": state, "key": None, "order_id": None, "why": "closed"}
    with shop.live.database.transaction() as connection:
        gateway_events.record(connection, "moody", "evt", "told", {"refunds": [fact]}, now, now)
        gateway_events.record_payments(connection, "evt", [PAID])
        gateway_events.set_outcome(connection, "evt", "no such payment")


def count(shop: Stage, act: Callable[[], Any]) -> int:
    with statements(shop) as said:
        act()
    return len([each for each in said if not each.startswith("BEGIN")])


def test_a_refund_costs_so_many_statements(shop: Stage) -> None:
    shop.stock(order(), paid_by("other", "W1002"))
    propose(write(shop), "W1002")  # the policy's text is on record from now on
    batch = write(shop, subject="One more")
    assert count(shop, lambda: propose(batch, "W1001")) <= 10
    assert count(shop, lambda: propose(batch, "W1001")) <= 3
    refund_id = shop.refunds()[-1].refund_id
    assert count(shop, lambda: pay(refund_id)) <= 12
    assert shop.refunds()[-1].status is RefundStatus.PAID
    assert count(shop, lambda: tell(refund_id)) <= 7


def test_one_for_a_manager_costs_one_more_to_propose(shop: Stage) -> None:
    desk = {"item_id": "K1", "name": "Desk", "quantity": 1, "unit_price": "1499.00"}
    paid = {"payment_id": PAID, "method": "card", "amount": "1499.00"}
    shop.stock(order(items=[desk], payments=[paid]), paid_by("other", "W1002"))
    propose(write(shop), "W1002")
    batch = write(shop, subject="The desk")
    assert count(shop, lambda: propose(batch, "W1001")) <= 11
    assert shop.refunds()[-1].status is RefundStatus.AWAITING_APPROVAL


def test_a_word_that_nobody_has_followed_counts_before_anything_is_paid(shop: Stage) -> None:
    refund_id = approved(shop)
    hear(shop, "settled")
    assert pay(refund_id)["status"] == "failed"
    assert "refunded elsewhere" in str(shop.refunds()[-1].failure)
    assert shop.rows("SELECT 1 FROM ledger_entries") == []


@pytest.mark.parametrize("names", [PAID, "another"])
def test_a_word_of_failure_that_overtakes_the_answer_is_heeded_whatever_the_order_names_by_now(
    shop: Stage, names: str
) -> None:
    refund_id = approved(shop)

    def meanwhile() -> None:
        shop.stock(paid_by(names))
        hear(shop, "failed")

    moody(shop, {PAID: [Refunded(REFERENCE)]}, before=meanwhile)
    assert pay(refund_id)["status"] == "failed"
    assert held(shop) == 0
    assert shop.rows("SELECT returned_at FROM refund_payments")[0].returned_at is not None


def test_what_stands_written_is_looked_up_and_asked_under_its_key(shop: Stage) -> None:
    refund_id = approved(shop)
    moody(shop, {PAID: [OutcomeUnknown("time-out")]}, moved=frozenset({PAID}))
    assert pay(refund_id)["status"] == "approved"
    assert pay(refund_id)["status"] == "paid"
    (intent,) = shop.rows("SELECT idempotency_key, attempts FROM refund_payments")
    assert (intent.idempotency_key, intent.attempts) == (refund_id, 2)
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
