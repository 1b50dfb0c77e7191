"""`/metrics`: what it tells is in the rows, whichever process is asked, and only to whoever has the token."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from mailagent import services
from mailagent.adapters.http import begin
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.metric import METRICS, MetricType
from mailagent.domain.operations.model_cost import parse_prices
from mailagent.domain.operations.provider import OPENAI
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.remedies import receive
from mailagent.store import schema
from mailagent.store.operations import metric_figures
from mailagent.store.operations.model_calls import Spending
from mailagent.web import metrics
from mailagent.workflows.recovery import update_counters
from mailagent.workflows.steps.circuit_breaker import Permit, note_outcome
from mailagent.workflows.steps.conversation import people
from mailagent.workflows.steps.conversation.batch import take_batch
from tests.cast import ADA, order
from tests.handed_over import by_button, thread
from tests.harness import Harness, open_shop
from tests.programs.stampede.story import Clock
from tests.web.doors import METRICS_TOKEN, furnish, record_call
from tests.workflows.moves import person_move
from tests.workflows.proposals import propose, write

PRICES = "1,0.1,10"


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    settings = {
        "METRICS_TOKEN": METRICS_TOKEN,
        "OPENAI_PRICES": PRICES,
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
    }
    with open_shop(tmp_path, database_url, settings) as harness:
        yield harness


def scrape(shop: Harness) -> dict[str, float]:
    """Return every sample by its name and labels, counted just now."""
    shop.app.extensions.clear()
    services.bind(replace(services.current(), spending=Spending()))
    answer = shop.client.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    assert answer.status_code == 200
    return {
        f"{sample.name}{{{','.join(sample.labels.values())}}}": sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_without_the_token_nothing_is_told(shop: Harness) -> None:
    for headers in ({}, {"Authorization": "Bearer another"}):
        answer = shop.client.get("/metrics", headers=headers)
        assert (answer.status_code, "mailagent_" in answer.text) == (401, False)


def test_mail_that_comes_in_waits_and_is_counted_by_its_kind(shop: Harness) -> None:
    shop.write("Where is my kettle?")
    shop.write("Where is my kettle?", from_address="noreply@example.com")
    told = scrape(shop)
    assert told["mailagent_mails_received_total{customer}"] >= 1
    assert told["mailagent_waiting{unanswered}"] == len(
        shop.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'")
    )
    received = sum(value for name, value in told.items() if "received" in name)
    without = sum(value for name, value in told.items() if "without_answer" in name)
    assert received == 2
    assert (
        told["mailagent_mails_answered_total{}"]
        == 2 - without - told["mailagent_waiting{unanswered}"]
    )
    assert told["mailagent_queue_depth{conversations}"] >= 1
    assert told["mailagent_queue_depth{refunds}"] == told["mailagent_workers_alive{}"] == 0


@pytest.mark.both_databases
def test_mail_that_was_handed_over_and_given_back_was_not_answered(shop: Harness) -> None:
    """A counter that goes down would look as if it had begun anew."""
    shop.write("Where is my kettle?")
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    people.hand_over(batch, person_move("CUSTOMER_ASKED"))
    assert scrape(shop)["mailagent_mails_answered_total{}"] == 0
    by_button(shop)
    assert scrape(shop)["mailagent_mails_answered_total{}"] == 0


def test_what_waits_for_a_manager_is_told_with_its_money_and_its_age(shop: Harness) -> None:
    furnish(shop)
    with shop.live.database.transaction() as connection:
        earlier = shop.live.now() - timedelta(hours=2)
        connection.execute(sa.update(schema.refunds).values(requested_at=earlier))
        connection.execute(sa.update(schema.approvals).values(expires_at=earlier))
    told = scrape(shop)
    assert told["mailagent_refunds{USD,awaiting_approval}"] == 1
    assert told["mailagent_refunds_amount{USD,awaiting_approval}"] == 1499.0
    assert 7200 <= told["mailagent_oldest_waiting_seconds{approvals}"] < 7300
    assert told["mailagent_approvals_overdue{}"] == 1
    assert told["mailagent_waiting{drafts}"] == 1


def test_a_payment_waits_from_its_approval_on(shop: Harness) -> None:
    furnish(shop)
    now = shop.live.now()
    with shop.live.database.transaction() as connection:
        connection.execute(sa.update(schema.refunds).values(status="approved"))
    told = scrape(shop)  # the shop's people pay it
    assert (told["mailagent_waiting{payments}"], told["mailagent_waiting{settlements}"]) == (0, 1)
    with shop.live.database.transaction() as connection:
        paid = {"state": "settled", "decided_at": now}
        connection.execute(sa.update(schema.ledger_settlements).values(paid))
    for decided_at, least in ((now, 0), (None, 3 * 86400)):
        with shop.live.database.transaction() as connection:
            connection.execute(
                sa.update(schema.refunds).values(
                    status="approved", requested_at=now - timedelta(days=3), decided_at=decided_at
                )
            )
        told = scrape(shop)
        assert told["mailagent_waiting{payments}"] == 1
        assert least <= told["mailagent_oldest_waiting_seconds{payments}"] < least + 60


def test_a_refund_that_waits_for_goods_is_no_late_payment(shop: Harness) -> None:
    rules = ReturnFirst(frozenset({RefundReason.CHANGED_MIND}), "Send it back.")
    services.bind(replace(shop.live, policy=Policy(return_first=rules)))
    shop.stock(order())
    propose(write(shop), "W1001", reason="changed_mind")
    assert scrape(shop)["mailagent_waiting{payments}"] == 0
    with shop.live.database.transaction() as connection:
        assert receive(connection, shop.refunds()[0].refund_id, "shop")
    assert scrape(shop)["mailagent_waiting{payments}"] == 1


def test_the_first_refund_of_a_currency_is_a_step_up_from_zero(shop: Harness) -> None:
    told = scrape(shop)
    assert shop.live.policy.limits
    for currency in shop.live.policy.limits:
        for status in RefundStatus:
            assert told[f"mailagent_refunds{{{currency},{status}}}"] == 0
            assert told[f"mailagent_refunds_amount{{{currency},{status}}}"] == 0


def test_tokens_and_money_count_on_when_their_rows_are_purged(shop: Harness) -> None:
    shop.write("Where is my kettle?")
    for age in (timedelta(days=500), timedelta(hours=1), timedelta(0)):
        record_call(shop, age)
    before = scrape(shop)
    update_counters()
    assert scrape(shop) == pytest.approx(before, abs=60)
    with shop.live.database.transaction() as connection:
        purged = connection.execute(
            sa.delete(schema.model_calls).where(
                schema.model_calls.c.at < shop.live.now() - timedelta(days=400)
            )
        )
    assert purged.rowcount == 1
    told = scrape(shop)
    assert told["mailagent_model_calls_total{small,done}"] == 3
    assert told["mailagent_model_calls_total{small,operator}"] == 0
    assert told["mailagent_model_tokens_total{small,cached}"] == 240


def test_the_day_costs_what_its_budget_counts_and_no_counter_falls_with_the_prices(
    shop: Harness,
) -> None:
    shop.write("Where is my kettle?")
    for age in (timedelta(days=1), timedelta(0)):
        record_call(shop, age)
    cost, counters = "mailagent_model_cost_usd_today{small}", {
        each.name for each in METRICS if each.kind is MetricType.COUNTER
    }  # fmt: skip
    before = scrape(shop)
    assert before[cost] == pytest.approx(0.000128)
    services.bind(replace(shop.live, token_prices=parse_prices("0.5,0.05,5")))
    after = scrape(shop)
    assert after[cost] == pytest.approx(0.000064)
    counted = {name for name in before if name.partition("{")[0] in counters}
    assert counted
    assert {name for name in counted if after[name] < before[name]} == set()


def test_mail_is_counted_that_comes_after_a_clock_was_set_back(shop: Harness) -> None:
    clock = Clock()
    services.bind(replace(shop.live, now=clock.now))
    begun = clock.now()
    for hours, count in ((0, 1), (24, 1), (1, 2)):
        clock.put_forward((begun + timedelta(hours=hours) - clock.now()).total_seconds())
        if hours != 24:  # the clock is wrong, and nothing comes in
            shop.write(f"Where is my kettle? {hours}")
        update_counters()
        assert scrape(shop)["mailagent_mails_received_total{customer}"] == count


def test_a_counter_moves_on_and_counts_nothing_twice(shop: Harness) -> None:
    shop.write("Where is my kettle?")
    for hours in (3, 2, 2, 1):
        record_call(shop, timedelta(hours=hours))
        update_counters()
    for _ in range(2):
        assert scrape(shop)["mailagent_model_calls_total{small,done}"] == 4
        update_counters()


def test_a_provider_that_fails_is_counted_and_told_while_it_is_away(shop: Harness) -> None:
    for _ in range(6):
        with shop.live.database.transaction() as connection:
            note_outcome(connection, Permit(OPENAI), Failure("answered 500"))
    told = scrape(shop)
    assert told["mailagent_provider_errors_total{openai}"] == 6
    assert told["mailagent_provider_errors_total{stripe}"] == 0
    assert told["mailagent_breaker_open{openai}"] == 1
    assert told["mailagent_breaker_open{sendgrid}"] == 0


def test_a_database_that_is_away_is_told_with_200(tmp_path: Path) -> None:
    settings = {"METRICS_TOKEN": METRICS_TOKEN, "MAILAGENT_ROLE": "web"}
    nobody = "postgresql+psycopg://mailagent:secret@127.0.0.1:1/mailagent"
    with open_shop(tmp_path, nobody, settings) as harness:
        assert scrape(harness) == {"mailagent_database_up{}": 0}


def test_a_second_scrape_within_seconds_counts_nothing(shop: Harness) -> None:
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    first = shop.client.get("/metrics", headers=headers)
    shop.write("Where is my kettle?")
    assert shop.client.get("/metrics", headers=headers).text == first.text


def test_a_database_that_says_nothing_is_away_in_time_and_asked_by_one_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Mock(wraps=begin)
    monkeypatch.setattr(metrics, "begin", counts)
    monkeypatch.setattr(metrics, "WAIT_SECONDS", 0.3)
    settings = {"METRICS_TOKEN": METRICS_TOKEN, "MAILAGENT_ROLE": "web"}
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections, and that is all
        nobody = f"postgresql+psycopg://mailagent@127.0.0.1:{server.getsockname()[1]}/mailagent"
        with open_shop(tmp_path, nobody, settings) as harness:
            headers, begun = {"Authorization": f"Bearer {METRICS_TOKEN}"}, time.monotonic()
            told = [harness.client.get("/metrics", headers=headers) for _ in range(3)]
            assert time.monotonic() - begun < 3  # the driver itself waits for ten
            assert {answer.status_code for answer in told} == {200}
            assert all("\nmailagent_database_up 0.0\n" in answer.text for answer in told)
            assert counts.call_count == 1


def test_a_database_that_says_nothing_is_not_ready_and_holds_up_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Mock(wraps=begin)
    monkeypatch.setattr(metrics, "begin", checks)
    monkeypatch.setattr(metrics, "WAIT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"postgresql+psycopg://mailagent@127.0.0.1:{server.getsockname()[1]}/mailagent"
        with open_shop(tmp_path, nobody, {"MAILAGENT_ROLE": "web"}) as harness:
            begun = time.monotonic()
            told = [harness.client.get("/readyz") for _ in range(3)]
            assert time.monotonic() - begun < 3  # the driver itself waits for ten
            assert {(each.status_code, each.text) for each in told} == {
                (503, "the database cannot be reached\n")
            }
            assert checks.call_count == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_readiness_waits_for_no_lock(shop: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "STATEMENT_SECONDS", 0.1)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("LOCK TABLE alembic_version"))
        assert shop.client.get("/readyz").status_code == 503
    assert shop.client.get("/readyz").status_code == 200


def test_a_database_that_is_slow_is_not_told_as_away(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "WAIT_SECONDS", 4)  # longer than a busy machine is silent
    read, over = metric_figures.read, threading.Event()

    def slow(connection: sa.Connection, *rest: Any) -> Any:
        while not over.wait(0.02):
            connection.execute(sa.select(1))
        return read(connection, *rest)

    monkeypatch.setattr(metric_figures, "read", slow)
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    assert shop.client.get("/metrics", headers=headers).status_code == 503
    over.set()
    assert shop.client.get("/metrics", headers=headers).status_code == 200


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_count_that_takes_too_long_is_given_up(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "STATEMENT_SECONDS", 0.1)
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("LOCK TABLE outbound_mails"))
        connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 5000"))
        assert shop.client.get("/metrics", headers=headers).status_code == 503
    assert shop.client.get("/metrics", headers=headers).status_code == 200
    with shop.live.database.snapshot() as connection:
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "0"


def test_labels_are_bounded_and_nobodys_words_or_addresses_are_told(shop: Harness) -> None:
    case = furnish(shop)
    shop.app.extensions.clear()
    told = shop.client.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}).text
    assert "\nmailagent_database_up 1.0\n" in told
    assert not [trace for trace in (ADA, case.order_id, case.words) if trace in told]
    assert not re.search(r"_[0-9A-HJKMNP-TV-Z]{26}", told)


def test_every_metric_is_served_under_its_name(shop: Harness) -> None:
    furnish(shop)
    record_call(shop, timedelta(0))
    told = {name.partition("{")[0] for name in scrape(shop)}
    assert told == {each.name for each in METRICS}
