"""An approved refund is withdrawn as long as no gateway may have been asked to pay it, and then no more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from mailagent import services
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import (
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    RefundRequest,
)
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds import credits, refund_payments
from mailagent.workflows.steps.conversation.batch import batch_reader
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import order
from tests.harness import Harness, pass_time
from tests.tool_use import use
from tests.workflows.camera import later_batch
from tests.workflows.paying import CARD, GIFT, MoodyGateway, held, ledger, moody, pay, two_payments
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

Press = Callable[[], dict[str, Any]]


@dataclass
class FarGateway(MoodyGateway):
    """A gateway with a circuit breaker. `looking`: what happens while it is asked about an earlier call."""

    looking: Callable[[], object] = lambda: None

    def is_remote(self, request: RefundRequest) -> bool:
        return True

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        self.looking()
        return super().look_up(request)


@pytest.fixture
def withdraw(shop: Harness) -> Press:
    """What withdraws Ada's kettle, which is approved and paid by a card and a gift card."""
    return asked(shop, two_payments())


def asked(shop: Harness, of_order: Order) -> Press:
    shop.stock(of_order)
    batch = write(shop)
    assert propose(batch, "W1001")["outcome"] == "approved"
    later = later_batch(shop, batch)
    return lambda: use(withdraw_refund, later, {"order_id": "W1001"})


def far(shop: Harness, looking: Callable[[], object] = lambda: None) -> FarGateway:
    gateway = FarGateway(shop.live.gateway, {}, looking=looking)
    services.bind(replace(shop.live, gateway=gateway))
    return gateway


def leave() -> None:
    """Have the gateway's circuit breaker open."""
    live = services.current()
    failure = Failure("it is away", needs_operator=True)
    with live.database.transaction() as connection:
        provider, now = live.providers.gateway, live.now()
        circuit_breakers.record_failure(connection, provider, failure, now, probing=False)


def come_back(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        circuit_breakers.give_another_chance(connection, shop.live.now())


def refund_id(shop: Harness) -> str:
    return shop.refunds()[0].refund_id


def is_withdrawn(shop: Harness) -> bool:
    """Whether the refund is withdrawn and holds nothing, now and after its run has looked again."""
    assert pay(refund_id(shop))["status"] == "withdrawn"
    parts = shop.rows("SELECT state, problem FROM refund_payments")
    said = {(each.state, each.problem) for each in parts}
    assert said <= {("refused", "the customer withdrew the refund")}
    (refund,) = shop.refunds()
    return (refund.decided_by, held(shop), ledger(shop)) == ("customer", 0, {})


def test_an_approved_refund_whose_run_has_not_begun_is_withdrawn(
    shop: Harness, withdraw: Press
) -> None:
    told = withdraw()
    assert (told["outcome"], told["withdrawn"]) == ("withdrawn", ["49.99 USD"])
    assert withdraw() == told
    assert is_withdrawn(shop)


def test_a_refund_is_withdrawn_while_its_gateway_is_away(shop: Harness, withdraw: Press) -> None:
    gateway = far(shop)
    leave()
    assert pay(refund_id(shop))["status"] == "approved"
    assert len(shop.rows("SELECT 1 FROM refund_payments WHERE state = 'asked'")) == 2
    assert withdraw()["outcome"] == "withdrawn"
    come_back(shop)
    assert is_withdrawn(shop)
    assert gateway.asked == []


def test_what_was_withdrawn_can_be_asked_for_again_and_is_paid_once(
    shop: Harness, withdraw: Press
) -> None:
    far(shop)
    leave()
    pay(refund_id(shop))
    withdraw()
    come_back(shop)
    assert propose(write(shop, subject="After all"), "W1001")["outcome"] == "approved"
    assert pay(shop.refunds()[-1].refund_id)["status"] == "paid"
    assert sum(ledger(shop).values()) == 49_99


def test_a_refund_is_withdrawn_while_the_gateway_takes_no_more_calls(
    shop: Harness, withdraw: Press
) -> None:
    moody(shop, {GIFT: [NotDone("too many requests", 60)]})
    assert pay(refund_id(shop))["status"] == "approved"
    assert withdraw()["outcome"] == "withdrawn"
    assert is_withdrawn(shop)


@pytest.mark.parametrize("moved", [True, False], ids=["made", "not made"])
def test_a_call_whose_answer_was_lost_cannot_be_withdrawn(
    shop: Harness, withdraw: Press, moved: bool
) -> None:
    parts = frozenset({GIFT}) if moved else frozenset[str]()
    moody(shop, {GIFT: [OutcomeUnknown("time-out")]}, moved=parts)
    pay(refund_id(shop))
    told = withdraw()
    assert (told["outcome"], told["facts"][0]) == ("too_late", "not_withdrawn/W1001")
    assert shop.refunds()[0].status == "approved"


def test_a_refund_is_not_said_to_be_beyond_withdrawal_before_its_gateway_is_asked(
    shop: Harness,
) -> None:
    shop.stock(two_payments())
    batch = write(shop)
    propose(batch, "W1001")

    def is_said() -> bool:
        with shop.live.database.snapshot() as connection:
            return batch_reader(connection, batch).find("not_withdrawn/W1001") is not None

    moody(shop, {GIFT: [NotDone("too many requests", 60), OutcomeUnknown("time-out")]})
    said = [is_said()]
    for _ in range(2):
        pay(refund_id(shop))
        said.append(is_said())
    assert said == [False, False, True]


@pytest.mark.parametrize(("method", "bonus"), [("bank_transfer", None), ("card", 10)])
def test_what_a_person_is_to_pay_cannot_be_withdrawn(
    shop: Harness, method: str, bonus: int | None
) -> None:
    paid = {"payment_id": "p", "method": method, "amount": "49.99"}
    withdraw = asked(shop, order(payments=[paid]))
    with shop.live.database.transaction() as connection:
        credits.choose(connection, shop.refunds()[0], bonus)  # store credit, or money
    assert pay(refund_id(shop))["status"] == "approved"
    assert shop.rows("SELECT 1 FROM ledger_settlements WHERE state = 'open'")
    assert withdraw()["outcome"] == "too_late"
    assert ledger(shop) == {"p": 49_99}


def test_a_part_that_is_paid_keeps_the_rest(shop: Harness, withdraw: Press) -> None:
    moody(shop, {CARD: [NotDone("too many requests", 60)]})
    assert pay(refund_id(shop))["status"] == "approved"
    assert ledger(shop) == {GIFT: 20_00}
    assert withdraw()["outcome"] == "too_late"
    assert pay(refund_id(shop))["status"] == "paid"


# --- at the same instant --------------------------------------------------------------------------


def test_a_withdrawal_just_before_the_call_stops_it(shop: Harness, withdraw: Press) -> None:
    told: list[str] = []
    gateway = far(shop, looking=lambda: told.append(withdraw()["outcome"]))
    leave()
    pay(refund_id(shop))  # what it is to be asked stands written
    come_back(shop)
    assert pay(refund_id(shop))["status"] == "withdrawn"
    assert told[0] == "withdrawn"
    assert GIFT not in gateway.asked
    assert is_withdrawn(shop)


def test_a_withdrawal_during_the_call_comes_too_late(shop: Harness, withdraw: Press) -> None:
    told: list[str] = []
    moody(shop, {}, before=lambda: told.append(withdraw()["outcome"]))
    assert pay(refund_id(shop))["status"] == "paid"
    assert set(told) == {"too_late"}
    assert sum(ledger(shop).values()) == 49_99


def test_a_withdrawal_and_a_payment_at_once_have_one_outcome(
    shop: Harness, withdraw: Press
) -> None:
    with ThreadPoolExecutor(2) as pool:
        payment = pool.submit(pay, refund_id(shop))
        told = pool.submit(withdraw).result()["outcome"]
        state = payment.result()["status"]
    assert (told, state) in (("withdrawn", "withdrawn"), ("too_late", "paid"))
    assert sum(ledger(shop).values()) == (0 if told == "withdrawn" else 49_99)


def test_one_workers_answer_does_not_end_another_ones_call(shop: Harness, withdraw: Press) -> None:
    """The first call was certainly not carried out, but a second one had begun meanwhile."""

    def meanwhile() -> None:
        pass_time(shop, minutes=2)
        now, key = services.current().now(), refund_id(shop)
        with shop.live.database.transaction() as connection:
            row = refund_payments.find_payment(connection, key)
            assert row is not None
            assert refund_payments.begin_asking(
                connection, key, row.asking_since, now + timedelta(minutes=1), "moody"
            )

    moody(shop, {GIFT: [NotDone("too many requests", 60)]}, before=meanwhile)
    pay(refund_id(shop))
    assert withdraw()["outcome"] == "too_late"
