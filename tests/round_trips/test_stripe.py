"""Refunds through Stripe, from the customer's mail to the receipt: once, and told as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.stripe.gateway import StripeGateway
from mailagent.engine import REFUND, run_id_of
from mailagent.engine.run import Run
from tests import stripe_server
from tests.cast import ADA, TESS, order
from tests.harness import Harness, open_shop, running, wait_until
from tests.stripe_server import StripeServer

BROKEN = "The kettle of order W1001 arrived broken. I want my money back."

SECRET = "whsec_17"

CARD = {"payment_id": "pi_card", "method": "card", "amount": "40.00"}
GIFT_CARD = {"payment_id": "gift-17", "method": "gift card", "amount": "9.99"}


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    server = StripeServer({"pi_card": 4999})
    yield server
    server.stop()


@pytest.fixture
def shop(tmp_path: Path, database_url: str, stripe: StripeServer) -> Iterator[Harness]:
    settings = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
        "STRIPE_API_BASE": stripe.url,
        "STRIPE_WEBHOOK_SECRET": SECRET,
    }
    with open_shop(tmp_path, database_url, settings) as harness:
        harness.stock(order(payments=[{**CARD, "amount": "49.99"}]))
        with running(harness):
            yield harness


def refunded_on_both(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM refund_payments ORDER BY payment_id")


def test_a_refund_is_paid_through_stripe_and_receipted(shop: Harness, stripe: StripeServer) -> None:
    shop.write(BROKEN)
    refund = shop.wait_for_refund("paid")
    assert (refund.gateway, refund.gateway_reference) == ("stripe", "re_1")
    assert stripe.keys_used == [refund.refund_id]
    assert [made["metadata"]["order_id"] for made in stripe.refunds] == ["W1001"]
    wait_until(lambda: any("re_1" in mail.text for mail in shop.mails_to(ADA)), 20, "the receipt")
    assert not shop.rows("SELECT 1 FROM ledger_entries")


@pytest.mark.parametrize(
    "fault",
    [stripe_server.lost_before, stripe_server.lost_after, stripe_server.made_but_500],
    ids=lambda fault: fault.__name__,
)
def test_a_lost_answer_does_not_pay_twice(shop: Harness, stripe: StripeServer, fault: Any) -> None:
    stripe.faults.append(fault)
    shop.write(BROKEN)
    assert shop.wait_for_refund("paid").gateway_reference == "re_1"
    assert len(stripe.refunds) == 1


def test_a_refund_that_is_not_settled_is_not_told_as_paid(
    shop: Harness, stripe: StripeServer
) -> None:
    gateway = StripeGateway("sk_test_17", stripe.url, look_again_seconds=0.3)
    services.bind(replace(shop.live, gateway=gateway))
    stripe.statuses.append("pending")
    shop.write(BROKEN)
    wait_until(lambda: any(row.attempts > 1 for row in refunded_on_both(shop)), 20, "a second look")
    assert shop.refunds()[0].status == "approved"
    assert not any("re_1" in mail.text for mail in shop.mails_to(ADA))
    stripe.settle("succeeded")
    assert shop.wait_for_refund("paid").gateway_reference == "re_1"


def test_a_refund_that_fails_in_the_end_goes_to_people(shop: Harness, stripe: StripeServer) -> None:
    gateway = StripeGateway("sk_test_17", stripe.url, look_again_seconds=0.3)
    services.bind(replace(shop.live, gateway=gateway))
    stripe.statuses.append("pending")
    shop.write(BROKEN)
    wait_until(lambda: bool(stripe.refunds), 20, "Stripe to be asked")
    stripe.settle("failed", failure_reason="expired_or_canceled_card")
    assert "expired_or_canceled_card" in (shop.wait_for_refund("failed").failure or "")
    assert any("W1001" in mail.text for mail in shop.wait_for_mails(TESS))


def tell(shop: Harness, kind: str, refund: dict[str, Any]) -> None:
    """Post an event about a refund, as Stripe would."""
    body = stripe_server.event(kind, stripe_server.shown(refund), f"evt_{kind}")
    headers = {"Stripe-Signature": stripe_server.sign(body, SECRET)}
    assert shop.client.post("/webhooks/stripe", data=body, headers=headers).status_code == 200


def test_a_refund_that_stripe_settles_is_seen_at_once_and_one_that_comes_back_is_told(
    shop: Harness, stripe: StripeServer
) -> None:
    stripe.statuses.append("pending")
    shop.write(BROKEN)
    wait_until(
        lambda: (
            any(step.name == "pay_refund" for step in run_of_refund(shop).steps)
            if shop.refunds()
            else False
        ),
        20,
        "a first look, after which the run would sleep for an hour",
    )
    stripe.settle("succeeded")
    tell(shop, "refund.updated", stripe.refunds[0])
    assert shop.wait_for_refund("paid").gateway_reference == "re_1"
    wait_until(lambda: len(shop.mails_to(ADA)) == 2, 20, "the answer and the receipt")
    stripe.refunds[0].update(status="failed", failure_reason="lost_or_stolen_card")
    tell(shop, "refund.failed", stripe.refunds[0])
    shop.wait_for_refund("failed")
    assert "did not reach you" in shop.wait_for_mails(ADA, 3)[-1].text
    assert "came back (the card was reported lost or stolen)" in shop.wait_for_mails(TESS)[0].text
    wait_until(shop.at_rest, 20, "everything to be sent")
    assert (len(shop.mails_to(ADA)), len(shop.mails_to(TESS)), len(stripe.refunds)) == (3, 1, 1)


def test_what_was_not_paid_through_stripe_goes_to_the_ledger(
    shop: Harness, stripe: StripeServer
) -> None:
    shop.stock(order(payments=[CARD, GIFT_CARD]))
    shop.write(BROKEN)
    shop.wait_for_refund("paid")
    assert [(made["payment"], made["amount"]) for made in stripe.refunds] == [("pi_card", 4000)]
    entries = shop.rows("SELECT * FROM ledger_entries")
    assert [(entry.payment_id, entry.amount_minor) for entry in entries] == [("gift-17", 999)]
    assert shop.refunds()[0].gateway == "ledger, stripe"
    (act,) = shop.rows("SELECT actor FROM audit WHERE action = 'refund paid'")
    assert act.actor == "ledger, stripe"


def test_what_only_the_ledger_paid_is_not_stripe_s_deed(shop: Harness) -> None:
    shop.stock(order(payments=[{**GIFT_CARD, "amount": "49.99"}]))
    shop.write(BROKEN)
    assert shop.wait_for_refund("paid").gateway == "ledger"
    (act,) = shop.rows("SELECT actor FROM audit WHERE action = 'refund paid'")
    assert act.actor == "ledger"


def test_a_look_that_fails_does_not_end_a_refund_that_waits_to_be_settled(
    shop: Harness, stripe: StripeServer
) -> None:
    gateway = StripeGateway("sk_test_17", stripe.url, look_again_seconds=0.3)
    services.bind(replace(shop.live, gateway=gateway))
    stripe.statuses.append("pending")
    shop.write(BROKEN)
    wait_until(lambda: bool(stripe.refunds), 20, "Stripe to be asked")
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE refund_payments SET attempts = 60"))
    stripe.read_faults.append(lambda: stripe_server.error(500, None, "down", "api_error"))
    wait_until(lambda: not stripe.read_faults, 20, "a look that fails")
    # It was one hour's look of two weeks, not the last of forty attempts: the run waits on.
    wait_until(
        lambda: refunded_on_both(shop)[0].attempts > 60 and has_ended_or_waits(shop), 20, "the run"
    )
    assert run_of_refund(shop).error is None
    assert refunded_on_both(shop)[0].problem.startswith("the gateway has it as re_1")


def run_of_refund(shop: Harness) -> Run:
    run_id = run_id_of(REFUND, shop.refunds()[0].refund_id)
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    return run


def has_ended_or_waits(shop: Harness) -> bool:
    """Whether the look after which `attempts` was seen has become a recorded step."""
    run = run_of_refund(shop)
    looks = [step for step in run.steps if step.name == "pay_refund"]
    newest = looks[-1].output if looks else None
    return run.error is not None or (newest or {}).get("wait_seconds", 0) > 1000
