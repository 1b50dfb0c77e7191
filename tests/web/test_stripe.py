"""Stripe's webhook: nothing unsigned is stored, every word counts once and in any order, and no word
alone makes a refund paid."""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from markupsafe import Markup, escape

from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.operations.retry import PAYMENT_NEEDS_OPERATOR_AFTER
from mailagent.domain.refunds.order import OrderProblem
from mailagent.domain.text import NeedsOperatorError
from mailagent.store.refunds import credits, external_refunds, refunds, stops
from mailagent.web.webhooks.gateway import LARGEST_EVENT_BYTES
from mailagent.workflows.steps.refund import condition, decision, order_check
from tests import stripe_server
from tests.cast import ADA, OLGA, TESS, order
from tests.harness import Harness, pass_time
from tests.stripe_server import StripeServer, event, shown
from tests.web.stripe_shop import (
    CARD,
    NOON,
    OLD,
    approved,
    dispute,
    elsewhere,
    held,
    paid,
    pay,
    post,
    say,
    shop,
    stripe,
)
from tests.workflows.paying import propose, tell_at_once
from tests.workflows.trouble import backdate_refund

__all__ = ["shop", "stripe"]

tell: Callable[[str], list[str]] = inspect.unwrap(decision.tell_customer)


# --- the door ---------------------------------------------------------------------------------


def test_what_is_not_signed_by_stripe_is_not_stored(shop: Harness, stripe: StripeServer) -> None:
    made = shown(stripe.refund_in_dashboard("pi_card", 4999))
    body = event("refund.created", made, "evt_1")
    assert post(shop, body, "whsec_mallory").status_code == 400
    assert shop.client.post("/webhooks/stripe", data=body).status_code == 400
    assert shop.rows("SELECT 1 FROM gateway_events") == []
    assert elsewhere(shop) == 0
    assert post(shop, body, OLD).status_code == 200


def test_the_same_event_counts_once(shop: Harness, stripe: StripeServer) -> None:
    body = event("refund.created", shown(stripe.refund_in_dashboard("pi_card", 1000)), "evt_1")
    assert [post(shop, body).text for _ in range(2)] == ["stored\n", "known already\n"]
    assert elsewhere(shop) == 1000
    assert len(shop.rows("SELECT 1 FROM gateway_events")) == 1


def test_events_that_say_nothing_of_our_money_are_thanked_for(shop: Harness) -> None:
    assert say(shop, "customer.created", {"id": "cus_1"}, "evt_1") == "says nothing of our money"
    assert "unknown status" in say(
        shop,
        "refund.updated",
        {"id": "re_1", "amount": 1, "currency": "usd", "status": "odd"},
        "e2",
    )


def test_a_signed_body_that_is_no_event_is_refused(shop: Harness) -> None:
    assert post(shop, b"{}").status_code == 400


def test_what_cannot_be_stored_is_to_be_sent_again(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("DROP TABLE gateway_event_payments"))
        connection.execute(sa.text("DROP TABLE gateway_events"))
    assert post(shop, event("customer.created", {}, "evt_1")).status_code == 503


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"account": "acct_17"}, "is of the connected account acct_17: not followed"),
        ({"livemode": True}, "is of live mode, STRIPE_API_KEY is not: not followed"),
        ({"livemode": False}, "came back"),
    ],
    ids=str,
)
def test_only_words_about_our_own_account_and_mode_are_followed(
    shop: Harness, stripe: StripeServer, changes: dict[str, Any], outcome: str
) -> None:
    paid(shop)
    failed = shown(stripe.refunds[0]) | {"status": "failed"}
    told = json.loads(event("refund.failed", failed, "evt_1")) | changes
    assert post(shop, json.dumps(told).encode()).status_code == 200
    assert outcome in shop.rows("SELECT outcome FROM gateway_events")[0].outcome
    followed = "came back" in outcome
    assert shop.refunds()[0].status == ("failed" if followed else "paid")
    assert len(shop.rows("SELECT 1 FROM gateway_event_payments")) == followed


def test_a_signature_that_is_not_ascii_is_a_wrong_one(shop: Harness) -> None:
    headers = {"Stripe-Signature": f"t={int(time.time())},v1=\u00e9"}
    body = event("customer.created", {}, "evt_1")
    assert shop.client.post("/webhooks/stripe", data=body, headers=headers).status_code == 400


def test_more_than_any_event_has_is_not_read(shop: Harness) -> None:
    assert post(shop, b" " * LARGEST_EVENT_BYTES + b"{}").status_code == 503
    assert post(shop, event("customer.created", {"x": " " * 900_000}, "evt_1")).status_code == 200


# --- refunds made elsewhere -------------------------------------------------------------------


def test_what_was_refunded_in_the_dashboard_is_not_paid_again(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = approved(shop)
    made = shown(stripe.refund_in_dashboard("pi_card", 1000))
    outcome = say(shop, "refund.created", made, "evt_1")
    assert outcome == "10.00 USD was refunded on order W1001 outside mailagent, as re_1"
    assert pay(refund_id)["status"] == "failed"
    assert "refunded elsewhere" in str(shop.refunds()[0].failure)
    assert stripe.keys_used == []
    assert propose(shop)["outcome"] == "needs_manager"  # for what is left


def test_a_refund_that_still_fits_beside_the_dashboard_s_is_paid(
    shop: Harness, stripe: StripeServer
) -> None:
    shop.stock(order(payments=[{**CARD, "amount": "39.99"}, gift("10.00")]))
    say(shop, "refund.created", shown(stripe.refund_in_dashboard("pi_card", 4999)), "evt_1")
    with shop.live.database.snapshot() as connection:
        assert external_refunds.given_back_minor(connection, "W1001") == 4999
    assert propose(shop)["outcome"] == "declined"


def gift(amount: str) -> dict[str, str]:
    return {"payment_id": "gift-17", "method": "gift card", "amount": amount}


CREATED, SETTLED, FAILED = ("pending", NOON), ("succeeded", NOON + 1), ("failed", NOON + 2)


@pytest.mark.parametrize(
    "words",
    [(CREATED, SETTLED, FAILED), (FAILED, SETTLED, CREATED), (SETTLED, FAILED, CREATED)],
    ids=["in_order", "backwards", "mixed"],
)
def test_a_failed_refund_of_the_dashboard_is_no_refund_in_whatever_order_the_words_come(
    shop: Harness, stripe: StripeServer, words: Sequence[tuple[str, int]]
) -> None:
    made = shown(stripe.refund_in_dashboard("pi_card", 4999))
    for number, (status, at) in enumerate(words):
        say(shop, "refund.updated", made | {"status": status}, f"evt_{number}", at)
    assert elsewhere(shop) == 0
    assert propose(shop)["outcome"] == "approved"


def test_a_refund_of_a_payment_that_no_order_has_is_kept_for_people_to_see(
    shop: Harness, stripe: StripeServer
) -> None:
    made = shown(stripe.refund_in_dashboard("pi_other", 1000))
    assert say(shop, "refund.created", made, "evt_1") == "no such payment: pi_other"
    shown_event = shop.app.test_cli_runner().invoke(args=["refunds", "events"])
    assert "no such payment: pi_other" in shown_event.output


def test_a_payment_of_two_orders_is_nobody_s_guess(shop: Harness, stripe: StripeServer) -> None:
    shop.stock(order("W1002", payments=[CARD]))
    made = shown(stripe.refund_in_dashboard("pi_card", 1000))
    assert "W1001, W1002: a person has to look" in say(shop, "refund.created", made, "evt_1")
    named = made | {"metadata": {"order_id": "W1001"}}
    say(shop, "refund.updated", named, "evt_2")
    assert elsewhere(shop) == 1000


def test_what_the_shop_s_record_says_counts_beside_what_the_gateway_tells(
    shop: Harness, stripe: StripeServer
) -> None:
    shop.stock(order(payments=[{**CARD, "refunded": "10.00"}]))
    say(shop, "refund.created", shown(stripe.refund_in_dashboard("pi_card", 500)), "evt_1")
    assert elsewhere(shop) == 1500


def test_what_was_told_before_the_order_came_counts_when_it_comes(
    shop: Harness, stripe: StripeServer
) -> None:
    made = shown(stripe.refund_in_dashboard("pi_other", 1000)) | {"charge": "ch_other"}
    assert say(shop, "refund.created", made, "evt_1") == "no such payment: pi_other, ch_other"
    late = order("W1002", payments=[{**CARD, "payment_id": "ch_other"}])
    for _ in range(2):
        shop.stock(late)
        assert elsewhere(shop, "W1002") == 1000
    told = shop.app.test_cli_runner().invoke(args=["refunds", "events"]).output
    assert "counts since order W1002 came" in told


def test_what_a_late_order_shares_with_another_is_nobody_s_guess(
    shop: Harness, stripe: StripeServer
) -> None:
    say(shop, "refund.created", shown(stripe.refund_in_dashboard("pi_other", 1000)), "evt_1")
    other = {**CARD, "payment_id": "pi_other"}
    shop.stock(order("W1002", payments=[other], currency="EUR"))
    shop.stock(order("W1003", payments=[other]))
    assert [elsewhere(shop, name) for name in ("W1002", "W1003")] == [0, 0]


def test_an_order_of_which_money_went_back_elsewhere_keeps_its_currency(
    shop: Harness, stripe: StripeServer
) -> None:
    say(shop, "refund.created", shown(stripe.refund_in_dashboard("pi_card", 1000)), "evt_1")
    with pytest.raises(OrderProblem, match="currency: cannot change, part of the order"):
        shop.stock(order(payments=[CARD], currency="EUR"))


def charge(given_back: int) -> dict[str, Any]:
    """The charge of the kettle's payment, as newer versions of the API tell it: with a sum only."""
    sums = {"amount": 4999, "amount_refunded": given_back, "currency": "usd"}
    return {"id": "ch_9", "object": "charge", "payment_intent": "pi_card"} | sums


def test_a_sum_counts_until_each_refund_in_it_is_told_of(
    shop: Harness, stripe: StripeServer
) -> None:
    first, second = (shown(stripe.refund_in_dashboard("pi_card", each)) for each in (1000, 500))
    told = say(shop, "charge.refunded", charge(1000), "evt_1")
    assert "10.00 USD was refunded on order W1001 outside mailagent" in told
    say(shop, "charge.refunded", charge(1500), "evt_2", NOON + 1)
    assert say(shop, "charge.refunded", charge(1000), "evt_3", NOON) == "known already"
    assert elsewhere(shop) == 1500
    say(shop, "refund.created", second, "evt_4")
    assert (elsewhere(shop), len(shop.rows("SELECT 1 FROM external_refunds"))) == (1500, 2)
    say(shop, "refund.created", first, "evt_5")
    rows = shop.rows("SELECT reference FROM external_refunds ORDER BY reference")
    assert (elsewhere(shop), [row.reference for row in rows]) == (1500, ["re_1", "re_2"])
    say(shop, "refund.failed", first | {"status": "failed"}, "evt_6", NOON + 2)
    assert say(shop, "charge.refunded", charge(1500), "evt_7", NOON + 1) == "known already"
    assert elsewhere(shop) == 500


def test_a_sum_of_our_own_refunds_is_nobody_else_s(shop: Harness) -> None:
    paid(shop)
    assert say(shop, "charge.refunded", charge(4999), "evt_1") == "known already"


def test_a_sum_has_no_store_credit_of_ours(shop: Harness) -> None:
    refund_id = approved(shop)
    with shop.live.database.transaction() as connection:
        credits.choose(connection, shop.refunds()[0], 10)
    assert pay(refund_id)["status"] == "approved"  # a person gives it
    say(shop, "charge.refunded", charge(1000), "evt_1")
    assert elsewhere(shop) == 1000


def test_a_sum_told_before_the_order_came_counts_when_it_comes(shop: Harness) -> None:
    late = {"id": "ch_late", "payment_intent": "pi_late"}
    say(shop, "charge.refunded", charge(700) | late, "evt_1")
    shop.stock(order("W1002", payments=[{**CARD, "payment_id": "pi_late"}]))
    assert elsewhere(shop, "W1002") == 700


# --- ours -------------------------------------------------------------------------------------


def test_what_we_know_of_a_refund_of_ours_is_no_news(shop: Harness, stripe: StripeServer) -> None:
    paid(shop)
    assert say(shop, "refund.created", shown(stripe.refunds[0]), "evt_1") == "known already"
    assert elsewhere(shop) == 0


def test_a_word_that_it_was_settled_does_not_make_a_refund_paid(
    shop: Harness, stripe: StripeServer
) -> None:
    stripe.statuses.append("pending")
    refund_id = approved(shop)
    assert pay(refund_id)["status"] == "approved"
    settled = shown(stripe.refunds[0]) | {"status": "succeeded"}
    assert "looks at once" in say(shop, "refund.updated", settled, "evt_1")
    assert pay(refund_id)["status"] == "approved"  # the gateway itself does not say so


def came_back(shop: Harness, stripe: StripeServer, why: str = "lost_or_stolen_card") -> str:
    refund_id = paid(shop)
    tell_at_once(shop, refund_id)
    stripe.refunds[0].update(status="failed", failure_reason=why)
    say(shop, "refund.failed", shown(stripe.refunds[0]), "evt_1")
    return refund_id


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("lost_or_stolen_card", "Die Karte wurde als verloren oder gestohlen gemeldet"),
        ("declined", "Die Bank des Kunden hat die Erstattung abgelehnt"),
        ("bank_on_the_moon", None),
    ],
)
def test_the_page_says_why_in_its_language_beside_the_code_of_the_gateway(
    shop: Harness, stripe: StripeServer, code: str, told: str | None
) -> None:
    refund_id = came_back(shop, stripe, code)
    german = {"Accept-Language": "de"}
    page = shop.log_in(TESS).get(f"/ops/refunds/{refund_id}", headers=german).text
    problem = Markup(re.findall(r'<p class="problem">(.*?)</p>', page, re.S)[0]).striptags()
    assert problem.startswith(f"{told} ({code})." if told else "49.99 USD")
    assert problem.endswith(f"came back ({code})")
    payment = Markup(page.partition('<h2 id="payments">')[2].partition("</table>")[0]).striptags()
    assert (f"{told} ({code})." in payment) == bool(told)
    assert code in payment


def test_what_we_stopped_ourselves_is_told_in_the_language_of_the_page(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = approved(shop)
    shop.stock(order(status="cancelled", payments=[CARD]))
    assert pay(refund_id)["status"] == "failed"
    german = {"Accept-Language": "de"}
    page = shop.log_in(TESS).get(f"/ops/refunds/{refund_id}", headers=german).text
    assert "die Bestellung wurde storniert, nachdem die Erstattung genehmigt" in page


@pytest.mark.parametrize("stop", [*order_check.STOPS, *stops.STOPS])
def test_why_we_stopped_a_refund_is_told_in_the_readers_language(
    shop: Harness, stripe: StripeServer, stop: str
) -> None:
    refund_id = approved(shop)
    with shop.live.database.transaction() as connection:
        condition.fail(connection, refunds.lock(connection, refund_id), stop, None)
    client = shop.log_in(OLGA)
    for path in (f"/ops/refunds/{refund_id}", f"/ops/audit?subject={refund_id}"):
        assert escape(stop) in client.get(path).text
        assert escape(stop) not in client.get(path, headers={"Accept-Language": "de"}).text


def test_a_paid_refund_that_fails_later_frees_the_money_and_is_told_once(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = came_back(shop, stripe)
    again = say(shop, "charge.refund.updated", shown(stripe.refunds[0]), "evt_2")
    assert again == "known already"
    refund = shop.refunds()[0]
    assert (refund.status, held(shop)) == ("failed", 0)
    assert "re_1 came back (lost_or_stolen_card)" in str(refund.failure)
    # Not the one that paid, which may still be at work on its receipt, and looks no more.
    assert str(refund.run_id).endswith("-evt_1")
    assert tell(refund_id) == tell(refund_id)
    letters = shop.rows(
        "SELECT text FROM outbound_mails WHERE to_address = :ada ORDER BY outbound_id", ada=ADA
    )
    assert ["did not reach you" in each.text for each in letters] == [False, True]
    (case,) = shop.rows("SELECT * FROM outbound_mails WHERE to_address = :tess", tess=TESS)
    assert "49.99 USD was NOT refunded to payment pi_card: re_1 came back" in case.text
    assert "came back (the card was reported lost or stolen)" in " ".join(case.text.split())
    assert "lost_or_stolen_card" not in case.text + case.html
    assert "a refund that had been paid came back" in case.text


def test_what_came_back_is_a_manager_s_when_it_is_asked_for_again(
    shop: Harness, stripe: StripeServer
) -> None:
    came_back(shop, stripe)
    assert propose(shop, subject="Again")["outcome"] == "needs_manager"
    assert "came_back_before" in shop.refunds()[-1].policy_reasons


def test_whoever_was_not_told_yet_hears_of_it_from_the_sweep(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = came_back(shop, stripe)
    backdate_refund(shop, 90)
    since = shop.live.now() - timedelta(days=30)

    def untold() -> list[str]:
        with shop.live.database.snapshot() as connection:
            return [row.refund_id for row in refunds.list_untold(connection, since, 10)]

    assert untold() == [refund_id]
    tell(refund_id)
    assert untold() == []


def test_a_word_of_failure_that_overtakes_our_own_record_is_not_lost(
    shop: Harness, stripe: StripeServer
) -> None:
    def failed_at_once(create: stripe_server.Create) -> Answer:
        answer = create()
        made = shown(stripe.refunds[0]) | {"status": "failed"}
        say(shop, "refund.failed", made, "evt_1")
        return answer  # in which Stripe still says that it succeeded

    refund_id = approved(shop)
    stripe.faults.append(failed_at_once)
    assert pay(refund_id)["status"] == "failed"
    assert held(shop) == 0


def test_an_older_word_does_not_bring_back_what_failed(shop: Harness, stripe: StripeServer) -> None:
    came_back(shop, stripe)
    older = shown(stripe.refunds[0]) | {"status": "succeeded"}
    assert say(shop, "refund.updated", older, "evt_0", NOON - 1) == "known already"
    assert shop.refunds()[0].status == "failed"
    assert elsewhere(shop) == 0


@pytest.mark.parametrize("changes", [{}, {"payment_intent": "pi_other"}, {"amount": 1}], ids=str)
def test_a_failure_of_another_refund_under_our_key_is_not_ours(
    shop: Harness, stripe: StripeServer, changes: dict[str, Any]
) -> None:
    stripe.statuses.append("pending")
    refund_id = approved(shop)
    pay(refund_id)
    other = shown(stripe.refunds[0]) | {"id": "re_x", "status": "failed"} | changes
    say(shop, "refund.failed", other, "evt_1")
    stripe.settle("succeeded")
    assert pay(refund_id)["status"] == "paid"
    assert held(shop) == 4999


def test_another_refund_under_the_key_of_one_that_is_unanswered_counts_beside_it(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = approved(shop)
    stripe.faults.append(stripe_server.lost_before)
    pay(refund_id)
    other = shown(stripe.refund_in_dashboard("pi_card", 1))
    say(shop, "refund.created", other | {"metadata": {"mailagent_key": refund_id}}, "evt_1")
    assert elsewhere(shop) == 1


def test_a_pending_refund_is_waited_for_although_a_word_of_failure_came_and_a_look_failed(
    shop: Harness, stripe: StripeServer
) -> None:
    stripe.statuses.append("pending")
    refund_id = approved(shop)
    for _ in range(PAYMENT_NEEDS_OPERATOR_AFTER):
        assert pay(refund_id)["status"] == "approved"
    stripe.settle("failed", failure_reason="expired_or_canceled_card")
    say(shop, "refund.failed", shown(stripe.refunds[0]), "evt_1")
    stripe.read_faults.append(lambda: stripe_server.error(500, None, "oops", "api_error"))
    assert pay(refund_id)["status"] == "approved"
    assert pay(refund_id)["status"] == "failed"


@pytest.mark.parametrize(
    ("pending", "most"), [(False, 40), (True, 14 * 24)], ids=["lost", "pending"]
)
def test_what_is_not_paid_for_long_is_an_operators_and_its_replay_pays_once(
    shop: Harness, stripe: StripeServer, pending: bool, most: int
) -> None:
    def look() -> str:
        if not pending:
            stripe.faults.append(stripe_server.lost_before)
        return str(pay(refund_id)["status"])

    if pending:
        stripe.statuses.append("pending")
    refund_id = approved(shop)
    assert look() == "approved"
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE refund_payments SET attempts = {most - 2}")
    assert look() == "approved"
    with pytest.raises(NeedsOperatorError, match=f"could not be paid in {most} attempts"):
        look()
    assert (shop.refunds()[0].status, held(shop)) == ("approved", 4999)
    if pending:
        stripe.settle("succeeded")
    stripe.faults.clear()
    assert pay(refund_id)["status"] == "paid"
    assert len(stripe.refunds) == 1


def failed_for_want_of_funds(shop: Harness, stripe: StripeServer) -> str:
    """Return a refund that Stripe has made and could not carry out, whose run stopped for an operator."""
    stripe.statuses.append("pending")
    refund_id = approved(shop)
    assert pay(refund_id)["status"] == "approved"
    stripe.settle("failed", failure_reason="insufficient_funds")
    with pytest.raises(NeedsOperatorError, match=r"re_1 is failed: insufficient_funds"):
        pay(refund_id)
    return refund_id


def test_a_refund_that_fails_for_want_of_funds_is_an_operators_and_its_replay_pays_once(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = failed_for_want_of_funds(shop, stripe)
    (part,) = shop.rows("SELECT state, returned_at FROM refund_payments")
    assert (part.state, part.returned_at, held(shop)) == ("asked", None, 4999)
    stripe.failing = "insufficient_funds"
    with pytest.raises(NeedsOperatorError, match=r"re_2 is failed: insufficient_funds"):
        pay(refund_id)
    stripe.failing = None
    assert pay(refund_id)["status"] == "paid"
    assert shop.refunds()[0].gateway_reference == "re_3"
    assert len(stripe.succeeded("pi_card")) == 1


@pytest.mark.parametrize("status", ["failed", "pending"])
def test_words_of_a_failure_that_an_operator_has_do_not_ask_stripe_again(
    shop: Harness, stripe: StripeServer, status: str
) -> None:
    failed_for_want_of_funds(shop, stripe)
    told = shown(stripe.refunds[0]) | {"status": status}
    assert say(shop, "charge.refund.updated", told, "evt_1") == "known already"
    run_id = shop.refunds()[0].run_id
    assert run_id is None or "evt_1" not in run_id


def test_older_words_of_a_refund_that_gave_way_to_another_do_not_count_beside_it(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = failed_for_want_of_funds(shop, stripe)
    pay(refund_id)
    made = shown(stripe.refunds[0]) | {"status": "pending"}
    assert say(shop, "refund.created", made, "evt_1") == "known already"
    assert (elsewhere(shop), held(shop)) == (0, 4999)
    assert [x.status for x in shop.refunds()] == ["paid"]


def test_an_order_that_is_cancelled_after_the_failure_is_not_refunded_again(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = failed_for_want_of_funds(shop, stripe)
    shop.stock(order(payments=[CARD], status="cancelled"))
    pass_time(shop, minutes=6)  # until then a call may be under way
    assert pay(refund_id)["status"] == "failed"
    assert len(stripe.refunds) == 1


def test_a_payment_in_another_currency_is_not_given_back(
    shop: Harness, stripe: StripeServer
) -> None:
    stripe.currency = "eur"
    refund_id = approved(shop)
    with pytest.raises(NeedsOperatorError, match="payment pi_card was made in EUR"):
        pay(refund_id)
    assert (shop.refunds()[0].status, stripe.refunds) == ("approved", [])


def test_a_refund_that_the_gateway_has_otherwise_is_for_people(
    shop: Harness, stripe: StripeServer
) -> None:
    stripe.faults.append(stripe_server.lost_after)
    refund_id = approved(shop)
    pay(refund_id)
    pass_time(shop, minutes=6)  # no other call of ours is under way any more
    stripe.refunds[0]["currency"] = "eur"
    with pytest.raises(RuntimeError, match=r"re_1 is of 49\.99 EUR, not 49\.99 USD"):
        pay(refund_id)
    assert (shop.refunds()[0].status, held(shop)) == ("approved", 4999)


# --- chargebacks ------------------------------------------------------------------------------

TAKEN = ("charge.dispute.created", "needs_response", NOON)
WORKED_ON = ("charge.dispute.updated", "under_review", NOON + 5)
WON = ("charge.dispute.closed", "won", NOON + 10)
AGAIN = ("charge.dispute.funds_reinstated", "won", NOON + 10)


def charged_back(shop: Harness, order_id: str = "W1001") -> bool:
    query = "SELECT charged_back_at FROM order_payments WHERE order_id = :id ORDER BY position"
    return any(row.charged_back_at for row in shop.rows(query, id=order_id))


def test_a_refund_of_a_payment_that_is_charged_back_is_not_paid(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = approved(shop)
    kind, status, at = TAKEN
    assert say(shop, kind, dispute(status), "evt_1", at) == "charged back: W1001"
    assert pay(refund_id)["status"] == "failed"
    assert "chargeback" in str(shop.refunds()[0].failure)
    assert stripe.keys_used == []


@pytest.mark.parametrize(
    "words",
    [(TAKEN, WON), (WON, TAKEN), (AGAIN, WORKED_ON, WON, TAKEN)],
    ids=["in_order", "backwards", "mixed"],
)
def test_a_dispute_that_was_won_is_over_in_whatever_order_the_words_come(
    shop: Harness, words: Sequence[tuple[str, str, int]]
) -> None:
    for number, (kind, status, at) in enumerate(words):
        say(shop, kind, dispute(status), f"evt_{number}", at)
    assert not charged_back(shop)


def test_one_dispute_that_was_won_does_not_end_another(shop: Harness) -> None:
    say(shop, TAKEN[0], dispute("needs_response", id="dp_2"), "evt_1")
    say(shop, WON[0], dispute("won"), "evt_2", NOON + 10)
    assert charged_back(shop)


def test_the_shop_s_record_does_not_wipe_out_a_chargeback_that_it_has_not_heard_of(
    shop: Harness,
) -> None:
    say(shop, TAKEN[0], dispute("needs_response"), "evt_1")
    shop.stock(order(payments=[CARD], customer={"email": ADA, "name": "Ada B."}))
    assert charged_back(shop)
    say(shop, WON[0], dispute("won"), "evt_2", NOON + 10)
    shop.stock(order(payments=[CARD]))
    assert not charged_back(shop)


def test_a_chargeback_told_before_its_order_came_counts_when_it_comes(
    shop: Harness, stripe: StripeServer
) -> None:
    lost = dispute("lost", payment_intent="pi_other")
    assert "no such payment" in say(shop, TAKEN[0], lost, "evt_1")
    card = {**CARD, "payment_id": "pi_other", "amount": "29.99"}
    shop.stock(order("W1001", payments=[gift("20.00"), card]))
    assert charged_back(shop)
    assert propose(shop)["outcome"] == "declined"
    won = dispute("won", payment_intent="pi_other")
    assert say(shop, WON[0], won, "evt_2", NOON + 10) == "no longer charged back: W1001"


def test_a_chargeback_holds_by_whichever_name_the_order_has_the_payment(shop: Harness) -> None:
    say(shop, TAKEN[0], dispute("needs_response"), "evt_1")
    shop.stock(order(payments=[{**CARD, "payment_id": "ch_9"}]))
    assert charged_back(shop)
    bare = {"id": "dp_1", "payment_intent": "pi_card", "status": "won"}
    say(shop, WON[0], bare, "evt_2", NOON + 10)
    assert not charged_back(shop)


def test_a_chargeback_that_came_at_the_same_moment_as_its_order_stops_the_payment(
    shop: Harness, stripe: StripeServer
) -> None:
    refund_id = approved(shop)
    say(shop, TAKEN[0], dispute("needs_response"), "evt_1")
    with shop.live.database.transaction() as connection:  # as if neither had seen the other
        connection.execute(sa.text("UPDATE order_payments SET charged_back_at = NULL"))
    assert pay(refund_id)["status"] == "failed"
    assert stripe.keys_used == []
    assert charged_back(shop)


def test_what_the_record_itself_said_of_a_chargeback_it_may_take_back(shop: Harness) -> None:
    shop.stock(order(payments=[{**CARD, "charged_back_at": "2026-11-10T10:00:00Z"}]))
    assert charged_back(shop)
    shop.stock(order(payments=[CARD]))
    assert not charged_back(shop)


def test_events_kept_name_nobody(shop: Harness, stripe: StripeServer) -> None:
    made = shown(stripe.refund_in_dashboard("pi_card", 1000)) | {"receipt_email": ADA}
    say(shop, "refund.created", made, "evt_1")
    (kept,) = shop.rows("SELECT body FROM gateway_events")
    assert ADA not in json.dumps(kept.body)
