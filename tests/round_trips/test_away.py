"""A model that is away for long: it is spared, nobody is written to twice, and all goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mailagent.domain.operations.provider import OPENAI, Provider
from mailagent.store.operations import circuit_breakers
from mailagent.workflows.steps.maintenance import sweep
from tests.cast import ADA, GRACE, JUERGEN, TESS
from tests.databases import ONE_DATABASE
from tests.harness import Harness, wait_until
from tests.programs.stampede.story import (
    AbsentOpenAI,
    Clock,
    at_work,
    is_calm,
    is_put_off,
    open_busy_shop,
    play,
)
from tests.round_trips.provider_faults import model_says
from tests.workflows.trouble import failing, wait_for_run

QUESTION = "Which orders of mine do you have? I forgot the number."


@pytest.fixture
def openai() -> Iterator[AbsentOpenAI]:
    server = AbsentOpenAI(latency_seconds=0.05)
    server.start()
    yield server
    server.stop()


def failed(shop: Harness) -> list[str]:
    return [run.run_id for run in shop.live.workflow_client.runs.list_runs(status="ERROR")]


def is_open(shop: Harness, provider: Provider) -> bool:
    with shop.live.database.snapshot() as connection:
        return provider in circuit_breakers.list_open(connection, shop.live.providers)


# --- the model ------------------------------------------------------------------------------------


def test_a_dead_model_is_spared_and_met_calmly_when_it_is_back(
    tmp_path: Path, database_url: str, openai: AbsentOpenAI
) -> None:
    with open_busy_shop(tmp_path, database_url, openai, 4) as (shop, clock):
        figures = play(shop, clock, openai, mails=20, probes=2)
        assert is_calm(figures, 4), figures
        assert not is_open(shop, OPENAI)
        assert failed(shop) == []


def test_a_refused_key_fails_one_run_and_the_rest_goes_on_by_itself(
    tmp_path: Path, database_url: str, openai: AbsentOpenAI
) -> None:
    with open_busy_shop(tmp_path, database_url, openai, 4) as (shop, clock):
        openai.goes_away(429, "insufficient_quota")
        shop.write(QUESTION)
        (run_id,) = [wait_for_run(shop, "conversation", "ERROR")]
        for customer in (GRACE, JUERGEN):
            shop.write(QUESTION, from_address=customer)
        wait_until(lambda: is_put_off(shop, 2), 60, "the others to be put off")
        for _ in range(3):
            probe(shop, clock, openai)  # still refused: no further run fails of it
        assert failed(shop) == [run_id]
        notices = shop.rows("SELECT subject FROM outbound_mails WHERE purpose = 'notice'")
        assert [row.subject for row in notices] == [
            "The model's provider refuses us: no mail is answered"
        ]
        openai.comes_back()
        probe(shop, clock, openai)
        sweep.enqueue_mail()
        for customer in (GRACE, JUERGEN):
            assert len(shop.wait_for_mails(customer, 1, 60)) == 1
        shop.live.workflow_client.replays.replay_run(run_id)
        assert len(shop.wait_for_mails(ADA, 1, 60)) == 1


def probe(shop: Harness, clock: Clock, openai: AbsentOpenAI) -> None:
    """Let the longest pause pass, and have the model tried."""
    before = openai.asked
    clock.put_forward(61)
    sweep.enqueue_mail()
    wait_until(lambda: openai.asked > before and not at_work(shop), 60, "the model to be tried")


@ONE_DATABASE
def test_a_replay_finds_the_way_open(
    tmp_path: Path, database_url: str, openai: AbsentOpenAI
) -> None:
    with open_busy_shop(tmp_path, database_url, openai, 4) as (shop, _clock):
        openai.goes_away(401, "invalid_api_key")
        shop.write(QUESTION)
        run_id = wait_for_run(shop, "conversation", "ERROR")
        openai.comes_back()
        shop.live.workflow_client.replays.replay_run(
            run_id
        )  # at once: the breaker would be open for ten seconds
        assert len(shop.wait_for_mails(ADA, 1, 60)) == 1
        assert not is_open(shop, OPENAI)


@ONE_DATABASE
def test_a_long_wish_for_a_pause_holds_no_run_and_team_mail_goes_on(busy_shop: Harness) -> None:
    long_wish = model_says(429, "rate_limit_exceeded", {"retry-after": "86400"})
    busy_shop.faults.openai.append(long_wish)
    busy_shop.write(QUESTION)
    wait_until(lambda: is_put_off(busy_shop, 1), 60, "the mail to be put off")
    with busy_shop.live.database.snapshot() as connection:
        (breaker,) = circuit_breakers.list_open(connection, busy_shop.live.providers).values()
    assert breaker.until_at is not None
    assert breaker.opened_at is not None
    assert breaker.until_at - breaker.opened_at == timedelta(minutes=15)
    busy_shop.write("I want to talk to a human being, now!", from_address=GRACE)
    wait_until(lambda: is_put_off(busy_shop, 2), 60, "the second mail to be put off")
    assert sweep.enqueue_mail() == 0


@ONE_DATABASE
def test_a_run_that_put_its_mail_off_replaces_no_failed_one(busy_shop: Harness) -> None:
    with failing("take_batch"):
        first = busy_shop.write(QUESTION)
        run_id = wait_for_run(busy_shop, "conversation", "ERROR")
    busy_shop.faults.openai.append(model_says(429, "rate_limit_exceeded", {"retry-after": "86400"}))
    busy_shop.write(QUESTION, in_reply_to=first.message_id)
    wait_until(lambda: is_put_off(busy_shop, 2) and not at_work(busy_shop), 60, "it to be put off")
    assert failed(busy_shop) == [run_id]


@ONE_DATABASE
def test_mail_that_is_put_off_for_hours_goes_to_people_in_time(
    tmp_path: Path, database_url: str, openai: AbsentOpenAI
) -> None:
    with open_busy_shop(tmp_path, database_url, openai, 4) as (shop, clock):
        openai.goes_away(404, "model_not_found")
        shop.write("Hello")
        wait_for_run(shop, "conversation", "ERROR")
        shop.write(QUESTION, from_address=GRACE)
        wait_until(lambda: is_put_off(shop, 1), 60, "the mail to be put off")
        for _ in range(7):  # more than a mail is enqueued for when the provider is well
            probe(shop, clock, openai)
        assert shop.mails_to(TESS) == []
        clock.put_forward(4 * 3600)
        sweep.enqueue_mail()
        shop.wait_for_mails(TESS, 2, 60)
        assert not shop.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'")
