"""What every payment gateway must do, asked of each; then what is Stripe's own."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mailagent.adapters.stripe.gateway import (
    FINAL_CODES,
    FINAL_FAILURES,
    KEYS_MAX,
    StripeGateway,
)
from mailagent.adapters.stripe.refunds import from_stripe, to_stripe
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import (
    ListingProblem,
    NotDone,
    OutcomeUnknown,
    PaymentGateway,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)
from mailagent.domain.refunds.settlement import SettlementRules
from mailagent.store.database import Database
from mailagent.store.refunds.ledger import LedgerGateway
from tests import stripe_server
from tests.stripe_server import StripeServer

ASKED = RefundRequest("r_17", "r_17", "W1001", "pi_1", Money(4999, "USD"))


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    server = StripeServer({"pi_1": 10_000, "ch_2": 5_000})
    yield server
    server.stop()


@pytest.fixture
def at_stripe(stripe: StripeServer) -> StripeGateway:
    return StripeGateway("sk_test_17", stripe.url, timeout_seconds=5)


@pytest.fixture(params=["ledger", "stripe"])
def gateway(
    request: pytest.FixtureRequest, database: Database, at_stripe: StripeGateway
) -> PaymentGateway:
    if request.param == "stripe":
        return at_stripe
    rules = SettlementRules(at_once=True)
    return LedgerGateway(database, lambda: datetime(2026, 11, 21, tzinfo=UTC), rules)


# --- of every gateway -------------------------------------------------------------------------


def test_a_refund_has_a_reference(gateway: PaymentGateway) -> None:
    outcome = gateway.refund(ASKED)
    assert isinstance(outcome, Refunded)
    assert outcome.reference


def test_the_same_request_again_is_the_same_refund(gateway: PaymentGateway) -> None:
    assert gateway.refund(ASKED) == gateway.refund(ASKED) == gateway.look_up(ASKED)


def test_nothing_is_found_that_was_not_asked(gateway: PaymentGateway) -> None:
    assert isinstance(gateway.look_up(ASKED), NotDone)


def test_another_key_is_another_refund(gateway: PaymentGateway) -> None:
    other = replace(ASKED, idempotency_key="r_18", refund_id="r_18", amount=Money(1, "USD"))
    assert gateway.refund(ASKED) != gateway.refund(other)
    assert gateway.look_up(ASKED) != gateway.look_up(other)


def test_what_was_refunded_is_listed_with_what_we_know_of_it(gateway: PaymentGateway) -> None:
    outcome = gateway.refund(ASKED)
    assert isinstance(outcome, Refunded)
    (listed,) = gateway.list_refunds("pi_1")
    assert (listed.reference, listed.amount) == (outcome.reference, ASKED.amount)
    assert (listed.state, listed.gateway) == (RefundState.SETTLED, gateway.name)
    assert (listed.idempotency_key, listed.order_id) == ("r_17", "W1001")
    assert "pi_1" in listed.payment_ids


def test_only_the_refunds_of_the_payment_are_listed(gateway: PaymentGateway) -> None:
    gateway.refund(ASKED)
    assert list(gateway.list_refunds("ch_2")) == []


# --- Stripe's own -----------------------------------------------------------------------------


def test_stripe_is_told_what_the_refund_is_about(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    at_stripe.refund(ASKED)
    [made] = stripe.refunds
    assert stripe.keys_used == ["r_17"]
    assert made["amount"] == 4999
    assert made["metadata"] == {"mailagent_key": "r_17", "refund_id": "r_17", "order_id": "W1001"}


def test_a_charge_can_be_refunded_too(stripe: StripeServer, at_stripe: StripeGateway) -> None:
    charge = replace(ASKED, payment_id="ch_2", amount=Money(5_000, "USD"))
    assert at_stripe.refund(charge) == Refunded("re_1")
    assert at_stripe.look_up(charge) == Refunded("re_1")


def until_final(gateway: PaymentGateway, request: RefundRequest) -> PaymentOutcome:
    """Ask as the workflow does: look up before asking again, until it is known."""
    outcome = gateway.refund(request)
    for _ in range(5):
        if isinstance(outcome, Refunded | Refused | Pending):
            break
        known = gateway.look_up(request)
        outcome = gateway.refund(request) if isinstance(known, NotDone) else known
    return outcome


FAULTS: dict[str, tuple[Any, PaymentOutcome | type]] = {
    "lost before": (stripe_server.lost_before, OutcomeUnknown),
    "lost after": (stripe_server.lost_after, OutcomeUnknown),
    "made, but 500": (stripe_server.made_but_500, OutcomeUnknown),
    "too many": (stripe_server.limited, NotDone),
    "in use": (stripe_server.in_use, OutcomeUnknown),
    "key refused": (stripe_server.no_key, NotDone),
    "redirected": (stripe_server.moved, OutcomeUnknown),
}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_goes_wrong_the_money_moves_once(
    name: str, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    fault, first = FAULTS[name]
    stripe.faults.append(fault)
    assert isinstance(at_stripe.refund(ASKED), first)  # type: ignore[arg-type]  # a class here
    assert until_final(at_stripe, ASKED) == Refunded("re_1")
    assert len(stripe.refunds) == 1


def test_a_refused_key_is_told_apart_from_all_else(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.faults += [stripe_server.no_key, stripe_server.limited]
    for operator in (True, False):
        outcome = at_stripe.refund(ASKED)
        assert isinstance(outcome, NotDone)
        assert outcome.operator is operator


def asked_to_retry(_create: stripe_server.Create) -> Answer:
    answer = stripe_server.error(500, None, "An unknown error occurred", "api_error")
    return Answer(answer.status, answer.value, {"Stripe-Should-Retry": "true"})


@pytest.mark.parametrize(
    "fault",
    [stripe_server.lost_before, stripe_server.limited, stripe_server.in_use, asked_to_retry],
    ids=lambda fault: fault.__name__,
)
def test_one_call_is_one_request_whatever_the_sdk_would_like_to_repeat(
    fault: Any, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.faults.append(fault)
    at_stripe.refund(ASKED)
    assert stripe.keys_used == ["r_17"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7), ("86400", 3600), ("nan", 0), ("-1", 0), ("soon", 0)]
)
def test_a_wait_of_stripe_s_is_bounded_and_makes_sense(
    stripe: StripeServer, at_stripe: StripeGateway, text: str, seconds: float
) -> None:
    def limited(_create: stripe_server.Create) -> Answer:
        answer = stripe_server.error(429, "rate_limit", "Too many", "invalid_request_error")
        return Answer(answer.status, answer.value, {"Retry-After": text})

    stripe.faults.append(limited)
    outcome = at_stripe.refund(ASKED)
    assert isinstance(outcome, NotDone)
    assert outcome.retry_after_seconds == seconds


def html(_create: stripe_server.Create) -> Answer:
    return Answer(200, "<html>a proxy's page</html>")


def test_an_unknown_outcome_says_whether_stripe_is_well(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.faults += [html, stripe_server.lost_before]
    stripe.statuses.append("never heard of")
    for answered in (False, False, True):
        outcome = at_stripe.refund(ASKED)
        assert isinstance(outcome, OutcomeUnknown)
        assert outcome.answered is answered


def test_a_stripe_that_hangs_is_left_after_the_time_out(stripe: StripeServer) -> None:
    def hang(_create: stripe_server.Create) -> Answer:
        time.sleep(1)
        return Answer(200, {})

    stripe.faults.append(hang)
    impatient = StripeGateway("sk_test_17", stripe.url, timeout_seconds=0.2)
    assert isinstance(impatient.refund(ASKED), OutcomeUnknown)


def stored_500(stripe: StripeServer) -> Any:
    def fault(create: stripe_server.Create) -> Answer:
        create()  # to have the request stored; then as if it had not been executed
        stripe.refunds.clear()
        key = stripe.keys_used[-1]
        return stripe.store_error(key, stripe._stored[key][0])

    return fault


def test_a_key_that_stripe_has_spent_on_an_error_gives_way_to_the_next(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.faults.append(stored_500(stripe))
    assert isinstance(at_stripe.refund(ASKED), OutcomeUnknown)
    assert isinstance(at_stripe.refund(ASKED), Refunded)
    assert len(stripe.refunds) == 1
    assert stripe.keys_used == ["r_17", "r_17", "r_17:2"]


def test_a_next_key_is_not_asked_when_the_first_one_paid(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    def paid_and_spent(create: stripe_server.Create) -> Answer:
        create()
        key = stripe.keys_used[-1]
        return stripe.store_error(key, stripe._stored[key][0])

    stripe.faults.append(paid_and_spent)
    at_stripe.refund(ASKED)
    assert at_stripe.refund(ASKED) == Refunded("re_1")
    assert set(stripe.keys_used) == {"r_17"}


def test_a_look_up_that_fails_is_not_taken_for_nothing_there(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    at_stripe.refund(ASKED)
    stripe.read_faults.append(lambda: stripe_server.error(500, None, "down", "api_error"))
    assert isinstance(at_stripe.look_up(ASKED), OutcomeUnknown)


def test_look_ups_and_lists_read_every_page(stripe: StripeServer, at_stripe: StripeGateway) -> None:
    at_stripe.refund(ASKED)
    for _ in range(250):
        stripe.refund_in_dashboard("pi_1", 1)
    assert at_stripe.look_up(ASKED) == Refunded("re_1")
    listed = at_stripe.list_refunds("pi_1")
    assert len({each.reference for each in listed}) == 251
    assert {each.idempotency_key for each in listed} == {None, ASKED.idempotency_key}


def test_a_list_that_cannot_be_read_is_no_empty_list(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.read_faults.append(lambda: stripe_server.error(500, None, "down", "api_error"))
    with pytest.raises(ListingProblem, match="down"):
        at_stripe.list_refunds("pi_1")


@pytest.mark.parametrize("status", ["pending", "requires_action"])
def test_a_refund_may_take_its_time(
    status: str, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.statuses.append(status)
    outcome = at_stripe.refund(ASKED)
    assert isinstance(outcome, Pending)
    stripe.refunds[0]["status"] = "succeeded"
    assert at_stripe.look_up(ASKED) == Refunded("re_1")


def test_what_was_refunded_in_the_dashboard_is_not_ours(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.refund_in_dashboard("pi_1", 10_000)
    outcome = at_stripe.refund(ASKED)
    assert isinstance(outcome, Refused)
    assert "elsewhere" in outcome.why


def test_what_can_never_be_paid_is_refused(at_stripe: StripeGateway) -> None:
    outcome = at_stripe.refund(replace(ASKED, amount=Money(10_001, "USD")))
    assert isinstance(outcome, Refused)
    assert "greater than" in outcome.why


def test_a_payment_that_is_not_stripes_is_for_an_operator_to_correct(
    at_stripe: StripeGateway,
) -> None:
    outcome = at_stripe.refund(replace(ASKED, payment_id="gift-17"))
    assert isinstance(outcome, NotDone)
    assert outcome.for_people
    assert "correct the order" in outcome.why


@pytest.mark.parametrize("code", FINAL_CODES)
def test_a_refusal_about_the_payment_itself_is_final(
    code: str, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.refusal = stripe_server.error(400, code, "No.")
    for _ in range(2):  # also when Stripe only repeats it
        outcome = at_stripe.refund(ASKED)
        assert isinstance(outcome, Refused)
        assert code in outcome.why
    assert stripe.keys_used == ["r_17", "r_17"]


def test_the_final_refusals_are_those_that_operators_read_of() -> None:
    told = (Path(__file__).parents[2] / "docs" / "money.md").read_text()
    final = {*FINAL_CODES, *FINAL_FAILURES}
    assert {*re.findall(r"`(\w+)`", told)} >= final
    assert {*re.findall(r"`(charge_\w+|refund_\w+_payment|\w+_card)`", told)} <= final


REPARABLE = {
    "no balance": stripe_server.NO_BALANCE,
    "another account's key": stripe_server.NOT_FOUND,
    "402": stripe_server.CARD_ERROR,
    "unheard of": stripe_server.error(400, "account_restricted_2031", "No."),
}


@pytest.mark.parametrize("tries", [1, 2, 5])
@pytest.mark.parametrize("name", REPARABLE)
def test_what_somebody_can_put_right_is_not_final_and_is_paid_once_afterwards(
    name: str, tries: int, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.refusal = REPARABLE[name]
    for _ in range(tries):
        outcome = at_stripe.refund(ASKED)
        assert isinstance(outcome, NotDone)
        assert outcome.for_people
        assert isinstance(at_stripe.look_up(ASKED), NotDone)
    stripe.refusal = None
    assert at_stripe.refund(ASKED) == at_stripe.refund(ASKED) == Refunded("re_1")
    assert len(stripe.refunds) == 1
    assert max(stripe.keys_used) == f"r_17:{tries + 1}"


def failed_in_the_end(stripe: StripeServer, at_stripe: StripeGateway, why: str | None) -> None:
    stripe.statuses.append("pending")
    assert isinstance(at_stripe.refund(ASKED), Pending)
    stripe.settle("failed", **{"failure_reason": why} if why else {})


@pytest.mark.parametrize("why", sorted(FINAL_FAILURES))
def test_a_refund_that_fails_for_a_reason_of_the_payment_is_final(
    why: str, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    failed_in_the_end(stripe, at_stripe, why)
    for outcome in (at_stripe.look_up(ASKED), at_stripe.refund(ASKED)):
        assert isinstance(outcome, Refused)
        assert why in outcome.why
    assert len(stripe.refunds) == 1


def test_a_refund_that_was_cancelled_is_not_made_again(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.statuses.append("requires_action")
    at_stripe.refund(ASKED)
    stripe.refunds[0]["status"] = "canceled"
    assert isinstance(at_stripe.refund(ASKED), Refused)
    assert len(stripe.refunds) == 1


@pytest.mark.parametrize("why", ["insufficient_funds", "unknown", "never heard of", None])
def test_a_refund_that_fails_for_another_reason_is_for_people_and_the_next_one_pays_once(
    why: str | None, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    failed_in_the_end(stripe, at_stripe, why)
    outcome = at_stripe.look_up(ASKED)
    assert isinstance(outcome, NotDone)
    assert (outcome.for_people, outcome.failed) == (True, "re_1")
    assert (why or "no reason given") in outcome.why
    # Stripe repeats re_1 as it was when it was made: pending.
    assert at_stripe.refund(ASKED) == at_stripe.refund(ASKED) == Refunded("re_2")
    assert at_stripe.look_up(ASKED) == Refunded("re_2")
    assert len(stripe.succeeded("pi_1")) == 1


def test_a_refund_that_fails_again_and_again_is_paid_once_when_it_can_be(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.failing = "insufficient_funds"
    for number in (1, 2, 3):
        outcome = at_stripe.refund(ASKED)
        assert isinstance(outcome, NotDone)
        assert (outcome.for_people, outcome.failed) == (True, f"re_{number}")
        assert at_stripe.look_up(ASKED) == outcome
    stripe.failing = None
    stripe.statuses.append("pending")
    assert at_stripe.refund(ASKED) == at_stripe.refund(ASKED) == Pending("re_4", 3600.0)
    stripe.settle("succeeded")
    assert at_stripe.refund(ASKED) == Refunded("re_4")
    stripe.forget_keys()
    assert at_stripe.look_up(ASKED) == Refunded("re_4")
    assert [x["id"] for x in stripe.succeeded("pi_1")] == ["re_4"]


@pytest.mark.parametrize("paid", ["re_1", "re_2"])
def test_two_that_ask_again_after_a_refusal_or_a_failure_pay_once(
    paid: str, stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    if paid == "re_1":
        stripe.refusal = stripe_server.NO_BALANCE
        at_stripe.refund(ASKED)
        stripe.refusal = None
    else:
        failed_in_the_end(stripe, at_stripe, "insufficient_funds")
    other = StripeGateway("sk_test_17", stripe.url, timeout_seconds=5)

    def overtaken(create: stripe_server.Create) -> Answer:
        assert other.refund(ASKED) == Refunded(paid)
        return create()

    stripe.faults.append(overtaken)  # met under the second key: the first is only repeated
    assert at_stripe.refund(ASKED) == Refunded(paid)
    assert len(stripe.refunds) == int(paid[-1])


def test_refusals_that_fill_all_keys_wait_until_stripe_forgets_them(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    stripe.refusal = stripe_server.NO_BALANCE
    at_stripe.refund(ASKED)
    for number in range(2, KEYS_MAX + 1):
        stripe._stored[f"r_17:{number}"] = stripe._stored["r_17"]
    stripe.refusal = None
    outcome = at_stripe.refund(ASKED)
    assert isinstance(outcome, NotDone)
    assert outcome.for_people
    stripe.forget_keys()
    assert at_stripe.refund(ASKED) == Refunded("re_1")


def test_another_accounts_key_cannot_say_what_became_of_a_refund(
    stripe: StripeServer, at_stripe: StripeGateway
) -> None:
    outcome = at_stripe.look_up(replace(ASKED, payment_id="pi_unknown"))
    assert isinstance(outcome, OutcomeUnknown)
    assert outcome.for_people
    asked = at_stripe.refund(replace(ASKED, payment_id="pi_unknown"))
    assert isinstance(asked, NotDone)
    assert asked.for_people


def test_no_connection_at_all_is_unknown(stripe: StripeServer, at_stripe: StripeGateway) -> None:
    stripe.stop()
    assert isinstance(at_stripe.refund(ASKED), OutcomeUnknown)
    assert isinstance(at_stripe.look_up(ASKED), OutcomeUnknown)


@pytest.mark.parametrize(
    ("money", "amount"),
    [
        (Money(4999, "USD"), 4999),
        (Money(500, "JPY"), 500),
        (Money(500, "ISK"), 50_000),
        (Money(5_000, "UGX"), 500_000),
        (Money(5_000, "MGA"), 50),
        (Money(1_230, "KWD"), 1_230),
    ],
)
def test_stripe_counts_some_currencies_in_its_own_way(money: Money, amount: int) -> None:
    assert to_stripe(money) == amount
    assert from_stripe(amount, money.currency.lower()) == money


@pytest.mark.parametrize("money", [Money(1_234, "KWD"), Money(5_050, "MGA")])
def test_what_stripe_cannot_express_is_said(money: Money, at_stripe: StripeGateway) -> None:
    outcome = at_stripe.refund(replace(ASKED, amount=money))
    assert isinstance(outcome, Refused)
    assert str(money) in outcome.why
