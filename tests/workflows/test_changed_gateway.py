"""A refund that is under way stays at its gateway when PAYMENT_GATEWAY is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mailagent import services
from mailagent.adapters.gateways import RoutedGateway
from mailagent.adapters.stripe.gateway import StripeGateway
from mailagent.adapters.stripe.refunds import is_stripe_payment
from mailagent.domain.refunds.payment import PaymentGateway, PaymentOutcome, RefundRequest
from mailagent.domain.refunds.settlement import Outcome, SettlementRules, SettlementState
from mailagent.domain.text import NeedsOperatorError
from mailagent.settling import settle
from mailagent.store.refunds import order_import, settlements
from mailagent.store.refunds.ledger import LedgerGateway
from tests import stripe_server
from tests.cast import OLGA, order
from tests.cli.commands import flask
from tests.harness import Harness, pass_time
from tests.stripe_server import StripeServer
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

CARD = {"payment_id": "pi_1", "method": "card", "amount": "49.99"}


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    server = StripeServer({"pi_1": 49_99})
    yield server
    server.stop()


@pytest.fixture
def at_ledger(shop: Harness) -> LedgerGateway:
    """A ledger whose entries wait for a person, as in a shop."""
    return LedgerGateway(shop.live.database, shop.live.now, SettlementRules())


@pytest.fixture
def at_stripe(stripe: StripeServer, at_ledger: LedgerGateway) -> RoutedGateway:
    return RoutedGateway(StripeGateway("sk_test_17", stripe.url), is_stripe_payment, at_ledger)


@pytest.fixture
def refund_id(shop: Harness) -> str:
    """An approved refund of a payment that Stripe took."""
    shop.stock(order(payments=[CARD]))
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    return shop.refunds()[0].refund_id


def pay_by(shop: Harness, gateway: PaymentGateway, refund_id: str) -> str:
    """Pay as after a restart with this gateway, and return the refund's status."""
    services.bind(replace(shop.live, gateway=gateway))
    return str(pay(refund_id)["status"])


def entries(shop: Harness) -> list[Any]:
    return shop.rows("SELECT idempotency_key FROM ledger_entries")


def report(
    shop: Harness, refund_id: str, state: SettlementState, *, came_back: bool = False
) -> None:
    why = "the bank refused it" if state is SettlementState.FAILED else None
    outcome = Outcome(refund_id, state, reason=why, came_back=came_back)
    with shop.live.database.transaction() as connection:
        assert settle(connection, outcome, OLGA)


@pytest.mark.parametrize("outcome", [SettlementState.SETTLED, SettlementState.FAILED])
def test_what_the_ledger_has_is_not_paid_by_stripe(
    shop: Harness,
    at_ledger: LedgerGateway,
    at_stripe: RoutedGateway,
    stripe: StripeServer,
    refund_id: str,
    outcome: SettlementState,
) -> None:
    assert pay_by(shop, at_ledger, refund_id) == "approved"
    assert pay_by(shop, at_stripe, refund_id) == "approved"
    report(shop, refund_id, outcome)
    paid = outcome is SettlementState.SETTLED
    assert pay_by(shop, at_stripe, refund_id) == ("paid" if paid else "failed")
    assert shop.refunds()[0].gateway == "ledger"
    assert stripe.keys_used == []


def test_what_the_ledger_has_is_not_given_to_stripe_by_a_person_either(
    shop: Harness, at_ledger: LedgerGateway, at_stripe: RoutedGateway, refund_id: str
) -> None:
    assert pay_by(shop, at_ledger, refund_id) == "approved"
    assert flask(shop, "refunds", "ask-again", refund_id).exit_code == 1
    assert pay_by(shop, at_stripe, refund_id) == "approved"
    report(shop, refund_id, SettlementState.SETTLED)
    assert pay_by(shop, at_stripe, refund_id) == "paid"


def test_what_failed_in_the_ledger_at_the_last_moment_is_not_paid(
    shop: Harness, at_ledger: LedgerGateway, refund_id: str
) -> None:
    """A person says that the money came back after the ledger was read, and before the answer is recorded."""
    assert pay_by(shop, at_ledger, refund_id) == "approved"
    report(shop, refund_id, SettlementState.SETTLED)

    class Overtaken(LedgerGateway):
        def look_up(self, request: RefundRequest) -> PaymentOutcome:
            found = super().look_up(request)
            report(shop, refund_id, SettlementState.FAILED, came_back=True)
            return found

    overtaken = Overtaken(shop.live.database, shop.live.now)
    stripe = StripeGateway("sk_test_17", "http://localhost:1")
    routed = RoutedGateway(stripe, is_stripe_payment, overtaken)
    assert pay_by(shop, routed, refund_id) == "failed"


@pytest.mark.parametrize("fault", ["pending", "lost_before", "lost_after"])
def test_what_stripe_may_have_waits_for_an_operator_and_goes_on_there(
    shop: Harness,
    at_ledger: LedgerGateway,
    at_stripe: RoutedGateway,
    stripe: StripeServer,
    refund_id: str,
    fault: str,
) -> None:
    if fault == "pending":
        stripe.statuses.append(fault)
    else:
        stripe.faults.append(getattr(stripe_server, fault))
    assert pay_by(shop, at_stripe, refund_id) == "approved"
    with pytest.raises(NeedsOperatorError) as told:
        pay_by(shop, at_ledger, refund_id)
    for words in ("stripe was asked", "pi_1", "PAYMENT_GATEWAY=stripe", "ask-again"):
        assert words in str(told.value)
    assert entries(shop) == []
    stripe.settle("succeeded")
    assert pay_by(shop, at_stripe, refund_id) == "paid"
    assert len(stripe.refunds) == 1


def test_an_order_cancelled_meanwhile_does_not_fail_what_stripe_may_have(
    shop: Harness,
    at_ledger: LedgerGateway,
    at_stripe: RoutedGateway,
    stripe: StripeServer,
    refund_id: str,
) -> None:
    stripe.statuses.append("pending")
    assert pay_by(shop, at_stripe, refund_id) == "approved"
    shop.stock(order(payments=[CARD], status="cancelled"))
    with pytest.raises(NeedsOperatorError):
        pay_by(shop, at_ledger, refund_id)
    stripe.settle("succeeded")
    assert pay_by(shop, at_stripe, refund_id) == "paid"


def test_what_stripe_does_not_have_is_paid_by_the_ledger_once_a_person_has_looked(
    shop: Harness,
    at_ledger: LedgerGateway,
    at_stripe: RoutedGateway,
    stripe: StripeServer,
    refund_id: str,
) -> None:
    stripe.faults.append(stripe_server.lost_before)
    assert pay_by(shop, at_stripe, refund_id) == "approved"
    with pytest.raises(NeedsOperatorError):
        pay_by(shop, at_ledger, refund_id)
    pass_time(shop, minutes=6)  # until then the call may be under way
    assert flask(shop, "refunds", "ask-again", refund_id).exit_code == 0
    assert pay_by(shop, at_ledger, refund_id) == "approved"
    report(shop, refund_id, SettlementState.SETTLED)
    assert pay_by(shop, at_ledger, refund_id) == "paid"
    assert stripe.refunds == []


def test_what_stripe_certainly_did_not_do_goes_on_at_the_ledger(
    shop: Harness,
    at_ledger: LedgerGateway,
    at_stripe: RoutedGateway,
    stripe: StripeServer,
    refund_id: str,
) -> None:
    stripe.refusal = stripe_server.NO_BALANCE
    with pytest.raises(NeedsOperatorError, match="balance"):
        pay_by(shop, at_stripe, refund_id)
    assert pay_by(shop, at_ledger, refund_id) == "approved"
    assert len(entries(shop)) == 1


def test_each_payment_of_a_refund_is_told_under_the_gateway_that_made_it(
    shop: Harness, at_ledger: LedgerGateway, at_stripe: RoutedGateway, stripe: StripeServer
) -> None:
    gift = {"payment_id": "gift-17", "method": "gift_card", "amount": "9.99"}
    shop.stock(order(payments=[CARD | {"amount": "40.00"}, gift]))
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    (refund,) = shop.refunds()
    assert pay_by(shop, at_stripe, refund.refund_id) == "approved"  # Stripe has paid its part
    with shop.live.database.snapshot() as connection:
        (waiting,) = settlements.list_open(connection)
    assert waiting.payment_id == "gift-17"
    report(shop, waiting.idempotency_key, SettlementState.SETTLED)
    assert pay_by(shop, at_ledger, refund.refund_id) == "paid"
    assert shop.refunds()[0].gateway == "ledger, stripe"
    assert len(stripe.refunds) == 1


def test_the_shops_record_need_not_have_what_the_ledger_paid_before(
    shop: Harness, at_ledger: LedgerGateway, at_stripe: RoutedGateway
) -> None:
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "20.00"}
    lamp = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "29.99"}
    told = order(items=[kettle, lamp], payments=[CARD | {"refunded": "10.00"}])
    shop.stock(told)
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    (refund,) = shop.refunds()
    pay_by(shop, at_ledger, refund.refund_id)
    report(shop, refund.refund_id, SettlementState.SETTLED)
    assert pay_by(shop, at_ledger, refund.refund_id) == "paid"
    pass_time(shop, hours=1)
    with shop.live.database.transaction() as connection:
        known = order_import.as_source_says(connection, told, shop.live.now(), at_stripe.is_remote)
    assert known.payments[0].refunded_minor == 10_00
