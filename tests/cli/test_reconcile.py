"""`flask refunds reconcile`: what a webhook that was missed would have told is found, and recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mailagent import services
from tests.cast import order
from tests.cli.commands import flask
from tests.harness import Harness
from tests.stripe_server import StripeServer, error, shown
from tests.web.stripe_shop import (
    CARD,
    approved,
    dispute,
    elsewhere,
    held,
    paid,
    pay,
    say,
    shop,
    stripe,
)

__all__ = ["shop", "stripe"]


def test_books_that_agree_have_no_differences(shop: Harness, stripe: StripeServer) -> None:
    paid(shop)
    result = flask(shop, "refunds", "reconcile")
    assert (result.exit_code, result.output) == (0, "1 payment compared, no differences.\n")


def test_what_happened_elsewhere_is_told_and_recorded_on_demand(
    shop: Harness, stripe: StripeServer
) -> None:
    paid(shop)
    stripe.refunds[0].update(status="failed", failure_reason="lost_or_stolen_card")
    stripe.refund_in_dashboard("pi_card", 1000)
    told = flask(shop, "refunds", "reconcile")
    assert told.exit_code == 1
    assert "failed at the gateway, which has it as re_1 (lost_or_stolen_card)." in told.output
    assert "refunded 10.00 USD of payment pi_card as re_2" in told.output
    assert (shop.refunds()[0].status, elsewhere(shop)) == ("paid", 0)
    recorded = flask(shop, "refunds", "reconcile", "--record", "--json")
    assert recorded.exit_code == 1
    differences = {each["kind"]: each for each in json.loads(recorded.output)}
    assert "outside mailagent, as re_2" in differences["unknown_here"]["recorded"]
    assert "came back" in differences["failed_there"]["recorded"]
    assert (shop.refunds()[0].status, held(shop), elsewhere(shop)) == ("failed", 0, 1000)
    assert flask(shop, "refunds", "reconcile").exit_code == 0


def test_what_was_wrongly_taken_for_returned_counts_again(
    shop: Harness, stripe: StripeServer
) -> None:
    paid(shop)
    failed = shown(stripe.refunds[0]) | {"status": "failed"}
    say(shop, "refund.failed", failed, "evt_1")
    assert (held(shop), elsewhere(shop)) == (0, 0)
    told = flask(shop, "refunds", "reconcile", "--record").output
    assert "recorded as returned" in told
    assert "49.99 USD was refunded on order W1001 outside mailagent, as re_1" in told
    assert (held(shop), elsewhere(shop)) == (0, 4999)
    assert flask(shop, "refunds", "reconcile").exit_code == 0
    say(shop, "refund.failed", failed, "evt_2")
    assert elsewhere(shop) == 0


def test_a_chargeback_that_no_order_knows_is_told_until_one_comes(shop: Harness) -> None:
    say(shop, "charge.dispute.created", dispute("lost", payment_intent="pi_other"), "evt_1")
    told = flask(shop, "refunds", "reconcile")
    assert told.exit_code == 1
    assert "Payment pi_other / ch_9 is charged back (dispute dp_1); no order has it." in told.output
    shop.stock(order(payments=[{**CARD, "payment_id": "ch_9"}]))
    told = flask(shop, "refunds", "reconcile")
    assert "1 payment compared, no differences." in told.output


@pytest.mark.parametrize("hours", [1, 13])
def test_what_was_paid_in_a_time_that_is_lost_is_not_paid_twice_nor_counted_twice(
    shop: Harness, stripe: StripeServer, hours: int
) -> None:
    refund_id = paid(shop)
    forget_the_payment(shop)
    if hours > 12:
        stripe.forget_keys()
    services.bind(replace(shop.live, now=lambda: datetime.now(UTC) + timedelta(hours=hours)))
    told = flask(shop, "refunds", "reconcile", "--record").output
    assert f"refund {refund_id} looks at once: it was paid as re_1 already" in told
    assert (held(shop), elsewhere(shop)) == (4999, 0)
    assert pay(refund_id)["status"] == "paid"
    assert [each["id"] for each in stripe.refunds] == ["re_1"]
    assert shop.refunds()[0].gateway_reference == "re_1"


def test_an_event_of_what_was_paid_in_a_time_that_is_lost_counts_for_no_payment_elsewhere(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = paid(shop)
    forget_the_payment(shop)
    say(shop, "refund.updated", shown(stripe.refunds[0]), "evt_1")
    assert pay(refund_id)["status"] == "paid"
    assert (held(shop), elsewhere(shop)) == (4999, 0)
    assert [each["id"] for each in stripe.refunds] == ["re_1"]


def test_a_decision_that_is_lost_is_asked_for_again_and_its_money_counts_once(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = paid(shop)
    forget_the_payment(shop, "awaiting_approval")
    told = flask(shop, "refunds", "reconcile", "--record").output
    assert f"refund {refund_id} waits for a manager here and was paid as re_1 already" in told
    assert (held(shop), elsewhere(shop)) == (4999, 0)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE refunds SET status = 'rejected'")
    assert "outside mailagent, as re_1" in flask(shop, "refunds", "reconcile", "--record").output
    assert (held(shop), elsewhere(shop)) == (0, 4999)


def forget_the_payment(shop: Harness, status: str = "approved") -> None:
    """Put the rows back to before the gateway was asked, as a restored backup does."""
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE refunds SET status = '{status}', paid_at = NULL, gateway_reference = NULL"
        )
        connection.exec_driver_sql("DELETE FROM refund_payments")


def test_a_refund_under_way_is_told(shop: Harness, stripe: StripeServer) -> None:
    stripe.statuses.append("pending")
    pay(approved(shop))
    result = flask(shop, "refunds", "reconcile")
    assert "is under way here; the gateway has it as re_1, pending." in result.output
    assert result.exit_code == 1


def test_books_that_cannot_be_read_are_no_agreement(shop: Harness, stripe: StripeServer) -> None:
    stripe.read_faults.append(lambda: error(500, None, "down", "api_error"))
    result = flask(shop, "refunds", "reconcile")
    assert result.exit_code == 1
    assert "the refunds of payment pi_card cannot be read" in result.output


def test_orders_of_long_ago_are_left_out(shop: Harness) -> None:
    assert "1 payment compared" in flask(shop, "refunds", "reconcile", "--since", "9").output
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE orders SET updated_at = '2020-01-01 00:00:00'")
    assert "0 payments compared" in flask(shop, "refunds", "reconcile", "--since", "9").output
