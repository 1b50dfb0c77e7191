"""Limits of calls and tokens a minute: what has to wait sleeps, or is put off, and is answered in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mailagent import services
from mailagent.adapters.openai.client import ChatModel
from mailagent.domain.mail.conversation import AnswerLimits
from mailagent.domain.operations.rate_limit import (
    LONGEST_FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    RateLimit,
)
from mailagent.workflows.steps.conversation import rate_limit
from mailagent.workflows.steps.maintenance import sweep
from tests.cast import ADA, TESS
from tests.harness import Harness, running, wait_until
from tests.programs.stampede.story import Clock
from tests.tool_calls import SCHEMAS
from tests.workflows.counting_openai import MeteredOpenAI, refuses
from tests.workflows.watched_model import WatchedModel

pytestmark = pytest.mark.both_databases

CUSTOMERS = [f"customer{number}@example.com" for number in range(5)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slow_shop(shop: Harness, clock: Clock) -> Harness:
    """A shop that may ask the model once a second; its workflows do not run yet."""
    return limited(shop, clock, RateLimit(requests=61))


def limited(shop: Harness, clock: Clock, limit: RateLimit) -> Harness:
    shop.live = replace(shop.live, rate_limit=limit, now=clock.now)
    services.bind(shop.live)
    return shop


def write_all(shop: Harness) -> None:
    for address in CUSTOMERS:
        shop.write("Hello?", from_address=address, from_name="C")


def test_more_mail_than_the_limit_allows_is_answered_at_its_pace(slow_shop: Harness) -> None:
    write_all(slow_shop)
    watched = WatchedModel(slow_shop.live.model)
    services.bind(replace(slow_shop.live, model=watched))
    with running(slow_shop):
        wait_until(slow_shop.at_rest, 40, "all mail to be answered")
    assert len(watched.asked_at) == len(CUSTOMERS)
    # Two may be asked at once, then one a second.
    assert watched.asked_at[-1] - watched.asked_at[0] > 2.5
    assert not slow_shop.rows("SELECT 1 FROM inbound_mails WHERE put_off > 0")


def bring_back(shop: Harness) -> int:
    """Sweep; return how many mails are still without an answer."""
    assert sweep.enqueue_mail() <= 1  # as many as the limit bears
    return len(shop.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'"))


def test_what_would_wait_too_long_is_put_off_and_brought_back(shop: Harness, clock: Clock) -> None:
    limited(shop, clock, RateLimit(requests=1))
    for address in CUSTOMERS[:3]:
        shop.write("Hello?", from_address=address, from_name="C")
    waiting = "SELECT 1 FROM inbound_mails WHERE status = 'unanswered'"
    with running(shop):
        wait_until(
            lambda: len(shop.rows(f"{waiting} AND put_off = 1")) == 2, 30, "two mails to be put off"
        )
        for left in (1, 0):
            clock.put_forward(121)
            wait_until(lambda left=left: bring_back(shop) <= left, 30, "one more to be answered")  # type: ignore[misc]  # a default binds the number
        wait_until(shop.at_rest, 30, "the last answer to be sent")
    assert len(shop.rows("SELECT 1 FROM model_calls")) == 3
    assert len({mail.to for each in CUSTOMERS for mail in shop.mails_to(each)}) == 3


def test_a_server_that_lets_us_in_late_leaves_no_mail_to_people(
    shop: Harness, clock: Clock
) -> None:
    services.bind(replace(shop.live, now=clock.now, answer_limits=AnswerLimits(provider_retries=1)))
    shop.faults.openai += [refuses("rate_limit_exceeded", wish_ms=500)] * 2
    shop.write("Hello?")
    with running(shop):
        waiting = "SELECT 1 FROM inbound_mails WHERE status = 'unanswered' AND put_off = 1"
        wait_until(lambda: bool(shop.rows(waiting)), 30, "the mail to be put off")
        clock.put_forward(121)
        wait_until(lambda: bring_back(shop) == 0, 30, "the mail to be answered")
        shop.wait_for_mails(ADA)
    assert not shop.mails_to(TESS)
    (conversation,) = shop.rows("SELECT status FROM conversations")
    assert conversation.status == "open"
    asked_at = [row.at for row in shop.rows("SELECT at FROM model_calls ORDER BY at")]
    assert len(asked_at) == 3


# --- one turn ---------------------------------------------------------------------------------------

ITEMS = [{"role": "user", "content": "x" * 4_000}]


def test_without_a_limit_no_turn_is_booked(shop: Harness) -> None:
    assert rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS) == rate_limit.Turn()
    assert shop.rows("SELECT 1 FROM rate_limits") == []


def test_after_its_wait_a_call_shows_the_turn_that_it_booked(shop: Harness, clock: Clock) -> None:
    limited(shop, clock, RateLimit(requests=6))
    first = rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS)
    second = rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS)
    assert first is not None
    assert second is not None
    assert first.wait_seconds == 0
    assert 8 < second.wait_seconds < 10
    booked = shop.rows("SELECT * FROM rate_limits")
    clock.put_forward(second.wait_seconds)
    again = rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS, second.at_ms)
    assert again is not None
    assert again.wait_seconds == 0
    assert shop.rows("SELECT * FROM rate_limits") == booked  # nothing more


def test_a_turn_that_was_missed_is_booked_anew(shop: Harness, clock: Clock) -> None:
    limited(shop, clock, RateLimit(requests=6))
    first = rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS)
    assert first is not None
    clock.put_forward(60)
    late = rate_limit.take_turn("", ITEMS, LONGEST_WAIT_SECONDS, first.at_ms)
    assert late is not None
    assert late.at_ms > first.at_ms + 59_000


def test_a_run_that_has_begun_waits_for_longer(shop: Harness, clock: Clock) -> None:
    limited(shop, clock, RateLimit(requests=1))
    assert rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS) is not None
    assert rate_limit.take_turn("", ITEMS, LONGEST_FIRST_WAIT_SECONDS) is None
    patient = rate_limit.take_turn("", ITEMS, LONGEST_WAIT_SECONDS)
    assert patient is not None
    assert 50 < patient.wait_seconds < 70


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        ({"limited": True, "after_seconds": 10.0}, 10),
        ({"limited": True, "after_seconds": 900.0}, 120),  # the rest is the breaker's
        ({"limited": True, "after_seconds": None}, 0),
        ({"after_seconds": 10.0}, 0),
    ],
    ids=["a pause", "a long one", "no wish", "away"],
)
def test_a_pause_that_the_provider_asks_for_holds_back_all_workers(
    shop: Harness, clock: Clock, outcome: dict[str, Any], seconds: float
) -> None:
    limited(shop, clock, RateLimit(requests=600))
    assert rate_limit.take_turn("", ITEMS, LONGEST_WAIT_SECONDS) is not None
    with shop.live.database.transaction() as connection:
        rate_limit.note_wish(connection, outcome)
    held = rate_limit.take_turn("", ITEMS, LONGEST_WAIT_SECONDS)
    assert held is not None
    assert held.wait_seconds == pytest.approx(seconds, abs=0.5)


# --- what the provider counts ----------------------------------------------------------------------


@contextmanager
def metered(tokens: int, now: Callable[[], datetime]) -> Iterator[tuple[MeteredOpenAI, ChatModel]]:
    server = MeteredOpenAI(tokens, now)
    server.start()
    try:
        yield server, ChatModel("test", f"{server.url}/v1", "some-model")
    finally:
        server.stop()


@pytest.mark.parametrize(("tokens", "calls"), [(30_000, 10), (100_000, 24), (400_000, 60)], ids=str)
def test_a_provider_that_counts_the_longest_answer_refuses_no_call(
    shop: Harness, clock: Clock, tokens: int, calls: int
) -> None:
    limited(shop, clock, RateLimit(tokens=tokens))
    asked = [[{"role": "user", "content": "x" * (400, 4_000, 24_000)[n % 3]}] for n in range(calls)]
    turns = [rate_limit.take_turn("Be kind.", items, LONGEST_WAIT_SECONDS) for items in asked]
    starts_at = clock.now()  # the server's clock: a slow machine is not late by it
    with metered(tokens, lambda: starts_at) as (server, model):
        for items, booked in zip(asked, turns, strict=True):
            assert booked is not None
            starts_at = datetime.fromtimestamp(booked.at_ms / 1000, UTC)
            outcome = model.ask("Be kind.", items, SCHEMAS, "key", "hash")
            assert outcome["kind"] == "done", outcome
    begun, ended = server.counted[0][0], server.counted[-1][0]
    # And not much of what it would let through is given away.
    counted = sum(each for _, each in server.counted)
    assert counted > 0.4 * tokens * (ended - begun).total_seconds() / 60
