"""SendGrid and Stripe while they are away: not asked, nothing counted, and all of it done once after that."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.provider import Provider
from mailagent.domain.refunds.payment import key_of
from mailagent.domain.text import NeedsOperatorError
from mailagent.store import schema
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.refunds import refund_payments
from mailagent.workflows.steps.delivery import send
from mailagent.workflows.steps.maintenance import sweep
from mailagent.workflows.steps.maintenance.incidents import update_incidents
from mailagent.workflows.steps.refund import payment
from tests import stripe_server
from tests.cast import OLGA, TESS, order
from tests.harness import Harness, open_shop
from tests.programs.stampede.story import Clock
from tests.round_trips.provider_faults import lost_before, no_key
from tests.stripe_server import StripeServer
from tests.workflows.paying import propose
from tests.workflows.trouble import forget_runs, watched

pay: Callable[[str], Any] = inspect.unwrap(payment.pay_refund)
look: Callable[[str], Any] = inspect.unwrap(send.look_at_delivery)

CASES = 8


@pytest.fixture
def clock() -> Clock:
    return Clock()


def is_open(provider: Provider) -> bool:
    with services.current().database.snapshot() as connection:
        return provider in circuit_breakers.list_open(connection, [provider])


# --- SendGrid -------------------------------------------------------------------------------------


@pytest.fixture
def cases(shop: Harness, clock: Clock) -> list[str]:
    """Mails of ours that wait to be sent: to the team, about conversations that nobody answered."""
    services.bind(replace(shop.live, now=clock.now))
    for number in range(CASES):
        sender = f"customer{number}@example.com"
        shop.write("Hello, is anybody there?", from_address=sender, aligned=False)
    forget_runs(shop)
    clock.put_forward(5 * 3600)
    sweep.enqueue_mail()
    rows = shop.rows("SELECT outbound_id FROM outbound_mails ORDER BY outbound_id")
    assert len(rows) == CASES
    return [row.outbound_id for row in rows]


def states(shop: Harness) -> set[str]:
    rows = shop.rows("SELECT status FROM outbound_mails WHERE purpose = 'hand_over'")
    return {row.status for row in rows}


def test_a_refusal_of_the_account_is_met_once(
    shop: Harness, clock: Clock, cases: list[str]
) -> None:
    shop.faults.sendgrid += [no_key] * 3
    assert {send.send_mail(outbound_id) for outbound_id in cases} == {"queued"}
    assert len(shop.faults.asked) == 1
    waits = [look(outbound_id)["wait_seconds"] for outbound_id in cases[1:]]
    assert all(50 < wait <= 120 for wait in waits)
    assert len(set(waits)) == len(waits)
    clock.put_forward(121)
    (probe, *others) = [each for each in cases if look(each)["kind"] == "send"][1:]
    send.send_mail(probe)  # refused still
    assert len(shop.faults.asked) == 2
    assert {look(each)["kind"] for each in others} == {"wait"}
    assert len(shop.faults.asked) == 2
    shop.faults.sendgrid.clear()
    clock.put_forward(900)
    for outbound_id in cases:
        send.send_mail(outbound_id)
    assert states(shop) == {"sent"}
    assert len(shop.faults.asked) == CASES + 2
    assert not is_open(services.current().providers.mail)


def test_after_five_lost_answers_no_further_mail_is_risked(shop: Harness, cases: list[str]) -> None:
    shop.faults.sendgrid += [lost_before] * CASES
    for outbound_id in cases:
        send.send_mail(outbound_id)
    assert len(shop.faults.asked) == 5
    assert is_open(services.current().providers.mail)
    rows = shop.rows("SELECT status FROM outbound_mails WHERE status = 'queued'")
    assert len(rows) == CASES - 5


def test_a_mail_nobody_knows_of_is_not_given_up_while_no_later_one_can_tell(
    shop: Harness, clock: Clock, cases: list[str]
) -> None:
    shop.faults.sendgrid += [lost_before] * 5
    for outbound_id in cases:
        send.send_mail(outbound_id)
    (lost, *_), waiting = cases[:5], cases[5:]
    clock.put_forward(5 * shop.live.waits.mail_outcome_seconds)
    assert look(lost)["kind"] == "wait"
    assert look(lost)["status"] == "sending"
    for outbound_id in waiting:
        assert send.send_mail(outbound_id) == "sent"
    assert shop.report(shop.mails_to(TESS)[-1]).status_code == 200
    wait_seconds = look(lost)["wait_seconds"]
    assert wait_seconds > shop.live.waits.mail_outcome_seconds - 60
    clock.put_forward(wait_seconds)
    assert look(lost)["kind"] == "send"
    assert send.send_mail(lost) == "sent"


def test_a_turn_that_finds_nothing_to_send_is_given_back(
    shop: Harness, clock: Clock, cases: list[str]
) -> None:
    send.send_mail(cases[0])
    shop.faults.sendgrid.append(no_key)
    send.send_mail(cases[1])
    clock.put_forward(11)
    send.send_mail(cases[0])  # was sent: its turn goes to the next
    assert send.send_mail(cases[2]) == "sent"
    assert not is_open(services.current().providers.mail)


# --- Stripe ---------------------------------------------------------------------------------------


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    server = StripeServer({"pi_1": 4999, "pi_2": 4999})
    yield server
    server.stop()


@pytest.fixture
def refund_ids(
    tmp_path: Path, database_url: str, stripe: StripeServer, clock: Clock
) -> Iterator[list[str]]:
    """Two approved refunds at Stripe; no run is at them."""
    settings = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
        "STRIPE_API_BASE": stripe.url,
    }
    with open_shop(tmp_path, database_url, settings) as shop:
        services.bind(replace(shop.live, now=clock.now))
        for number in (1, 2):
            card = {"payment_id": f"pi_{number}", "method": "card", "amount": "49.99"}
            shop.stock(order(f"W100{number}", payments=[card]))
            propose(shop, subject=f"Order W100{number}", order_id=f"W100{number}")
        yield [refund.refund_id for refund in shop.refunds()]


def attempts(refund_id: str) -> list[int]:
    with services.current().database.snapshot() as connection:
        return [row.attempts for row in refund_payments.list_payments(connection, refund_id)]


def test_while_stripe_is_away_nothing_is_asked_and_nothing_counted(
    refund_ids: list[str], stripe: StripeServer, clock: Clock
) -> None:
    first, second = refund_ids
    stripe.faults.append(stripe_server.no_key)
    with pytest.raises(NeedsOperatorError, match="401"):
        pay(first)
    for refund_id in refund_ids:
        state = pay(refund_id)
        assert state["status"] == "approved"
        assert 60 <= state["wait_seconds"] <= 120
    assert len(stripe.keys_used) == 1
    assert (attempts(first), attempts(second)) == ([1], [0])
    clock.put_forward(121)
    assert [pay(refund_id)["status"] for refund_id in refund_ids] == ["paid", "paid"]
    assert len(stripe.refunds) == 2
    assert not is_open(services.current().providers.gateway)


def test_look_ups_count_as_asks(refund_ids: list[str], stripe: StripeServer, clock: Clock) -> None:
    first, _ = refund_ids
    stripe.faults.append(stripe_server.lost_after)
    stripe.read_faults += [lambda: stripe_server.error(503, None, "down", "api_error")] * 4
    for _ in range(7):
        assert pay(first)["status"] == "approved"
    assert stripe.read_faults == []
    assert attempts(first) == [5]
    clock.put_forward(121)
    assert pay(first)["status"] == "paid"
    assert len(stripe.refunds) == 1


def test_a_run_whose_stop_was_not_recorded_waits_for_the_operators_who_know(
    refund_ids: list[str], stripe: StripeServer, clock: Clock
) -> None:
    first, _ = refund_ids
    stripe.faults += [stripe_server.no_key] * 2
    with pytest.raises(NeedsOperatorError, match="401"):
        pay(first)  # its process dies before this is recorded, so the run is taken over:
    assert pay(first)["status"] == "approved"
    clock.put_forward(121)
    assert pay(first)["status"] == "approved"  # refused still
    with services.current().database.snapshot() as connection:
        mails = schema.outbound_mails.c
        notices = sa.select(mails.subject).where(mails.to_address == OLGA)
        assert connection.scalars(notices).one() == "Stripe refuses our key: no refund is paid"
    clock.put_forward(900)
    assert pay(first)["status"] == "paid"


def test_a_stripe_that_stays_away_is_an_operator_s_business(
    refund_ids: list[str], stripe: StripeServer, clock: Clock
) -> None:
    first, second = refund_ids
    stripe.faults.append(stripe_server.no_key)
    with pytest.raises(NeedsOperatorError, match="401"):
        pay(first)
    clock.put_forward(36 * 3600)
    stripe.faults.append(stripe_server.no_key)
    pay(first)  # the probe
    assert pay(second)["status"] == "approved"  # for the first time: others had nothing to ask
    with pytest.raises(RuntimeError, match="Stripe is away since"):
        pay(first)
    clock.put_forward(61)
    assert [pay(refund_id)["status"] for refund_id in refund_ids] == ["paid", "paid"]


def disputed(_create: stripe_server.Create) -> Answer:
    return stripe_server.error(400, "charge_disputed", "This charge has been charged back.")


def test_a_refusal_of_one_refund_shows_that_the_key_is_right_again(
    refund_ids: list[str], stripe: StripeServer, clock: Clock
) -> None:
    first, second = refund_ids
    stripe.faults += [stripe_server.no_key, disputed]
    with pytest.raises(NeedsOperatorError, match="401"):
        pay(first)
    update_incidents()
    assert is_refused()
    clock.put_forward(121)
    assert pay(first)["status"] == "failed"
    update_incidents()
    assert not is_refused()
    stripe.faults.append(stripe_server.no_key)
    with pytest.raises(NeedsOperatorError, match="401"):
        pay(second)
    assert is_refused()


def test_a_probe_that_asks_nothing_closes_no_breaker(
    refund_ids: list[str], stripe: StripeServer, clock: Clock
) -> None:
    first, second = refund_ids
    stripe.faults.append(stripe_server.no_key)
    with pytest.raises(NeedsOperatorError, match="401"):
        pay(first)
    clock.put_forward(121)

    def another_worker_asks() -> None:
        with services.current().database.transaction() as connection:
            begun = connection, key_of(second, 1), None, clock.now()
            assert refund_payments.begin_asking(*begun, "stripe")

    with watched("pay_refund intended", another_worker_asks):
        assert pay(second)["status"] == "approved"
    assert is_open(services.current().providers.gateway)
    assert pay(first)["status"] == "paid"  # the probe is free


def is_refused() -> bool:
    with services.current().database.snapshot() as connection:
        return incidents.find_open(connection, IncidentKind.GATEWAY) is not None
