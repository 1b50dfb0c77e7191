"""What the gateway said of a payment counts although nobody has followed it; what was asked is looked up."""

from __future__ import annotations

import pytest

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import OutcomeUnknown, Refunded
from mailagent.store.refunds import gateway_events
from tests.cast import order
from tests.harness import Harness
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
    told = {"reference": REFERENCE, "payment_ids": [PAID], "amount": "49.99 USD"}
    fact = {**told, "state": state, "key": None, "order_id": None, "why": "closed"}
    with shop.live.database.transaction() as connection:
        gateway_events.record(connection, "moody", "evt", "told", {"refunds": [fact]}, now, now)
        gateway_events.record_payments(connection, "evt", [PAID])
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
