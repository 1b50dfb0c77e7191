"""Breakers as rows, on both databases: counted together, and one probe at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from mailagent.domain.operations.circuit_breaker import PROBE_SECONDS, Breaker, Failure
from mailagent.domain.operations.provider import OPENAI, Provider, ProviderKind, Providers
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.store.database import Database
from mailagent.store.operations import circuit_breakers, rate_limits
from tests.cast import NOW

STRIPE = Provider(ProviderKind.GATEWAY, "stripe", "Stripe", "STRIPE_API_KEY")
SENDGRID = Provider(ProviderKind.MAIL, "sendgrid", "SendGrid", "SENDGRID_API_KEY")
PROVIDERS = Providers(SENDGRID, STRIPE)

DOWN = Failure("answered 503")


def fail(database: Database, at: datetime = NOW, probing: bool = False) -> Breaker:
    with database.transaction() as connection:
        return circuit_breakers.record_failure(connection, OPENAI, DOWN, at, probing)


def claim(database: Database, at: datetime) -> bool:
    with database.transaction() as connection:
        return circuit_breakers.claim_probe(connection, OPENAI, at)


def found(database: Database) -> Breaker | None:
    with database.snapshot() as connection:
        return circuit_breakers.find(connection, OPENAI)


def test_failures_of_all_workers_at_once_are_counted_together(database: Database) -> None:
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(lambda _: fail(database), range(5)))
    after = found(database)
    assert after is not None
    assert (after.failures, after.until_at) == (5, NOW + timedelta(seconds=10))
    with database.snapshot() as connection:
        assert list(circuit_breakers.list_open(connection, PROVIDERS)) == [OPENAI]
        assert circuit_breakers.find(connection, STRIPE) is None


def test_of_all_who_would_try_one_does(database: Database) -> None:
    for _ in range(5):
        fail(database)
    assert not claim(database, NOW + timedelta(seconds=9.9))
    due = NOW + timedelta(seconds=10)
    with ThreadPoolExecutor(8) as workers:
        claimed = list(workers.map(lambda _: claim(database, due), range(8)))
    assert claimed.count(True) == 1
    # Its process has died: the turn comes free by itself.
    assert not claim(database, due + timedelta(seconds=PROBE_SECONDS - 1))
    assert claim(database, due + timedelta(seconds=PROBE_SECONDS))


@pytest.mark.parametrize("probing", [False, True])
def test_only_a_probe_closes_what_is_open(database: Database, probing: bool) -> None:
    for _ in range(5):
        fail(database)
    with database.transaction() as connection:
        circuit_breakers.record_success(connection, OPENAI, probing, NOW)
        closed_at = circuit_breakers.last_closed_at(connection, OPENAI)
    assert (found(database) is None) is probing
    assert closed_at == (NOW if probing else None)


def test_an_answer_ends_a_row_of_failures(database: Database) -> None:
    for _ in range(4):
        fail(database)
    with database.transaction() as connection:
        circuit_breakers.record_success(connection, OPENAI, probing=False, now=NOW)
    assert fail(database) == Breaker(failures=1, why="answered 503")


def test_a_turn_that_was_not_used_is_free_again(database: Database) -> None:
    for _ in range(5):
        fail(database)
    due = NOW + timedelta(seconds=10)
    assert claim(database, due)
    with database.transaction() as connection:
        circuit_breakers.free_probe(connection, OPENAI, due)
    assert claim(database, due)


def test_a_time_that_a_wrong_clock_set_holds_nobody_up(database: Database) -> None:
    for _ in range(5):
        fail(database, NOW + timedelta(days=1))
    assert claim(database, NOW)


def test_another_chance_opens_the_way_for_all(database: Database) -> None:
    for _ in range(5):
        fail(database)
    with database.transaction() as connection:
        circuit_breakers.give_another_chance(connection, NOW)
        assert circuit_breakers.list_open(connection, PROVIDERS) == {}
        assert circuit_breakers.last_closed_at(connection, OPENAI) == NOW
    assert fail(database).until_at is not None


# --- rate limit -----------------------------------------------------------------------------------


def reserve(
    database: Database, limits: RateLimit, at: datetime = NOW, tokens: int = 1, within: float = 600
) -> datetime | None:
    with database.transaction() as connection:
        return rate_limits.reserve(connection, OPENAI, limits.share_of(tokens), at, within)


def test_all_who_ask_at_once_get_turns_one_behind_the_other(database: Database) -> None:
    limits = RateLimit(requests=60)
    with ThreadPoolExecutor(8) as workers:
        turns = list(workers.map(lambda _: reserve(database, limits), range(90)))
    starts = sorted(turn for turn in turns if turn is not None)
    assert len(starts) == 90
    assert starts[0] == NOW
    for start in starts:
        within = [each for each in starts if start <= each < start + timedelta(seconds=60)]
        assert len(within) <= 60


def test_tokens_that_one_worker_has_reserved_make_the_others_wait(database: Database) -> None:
    limits = RateLimit(tokens=6_000)
    assert reserve(database, limits, tokens=1_500) == NOW
    turns = [reserve(database, limits, tokens=1_500) for _ in range(2)]
    # Half of them may start at once, the other half evenly.
    assert turns == [NOW, NOW + timedelta(seconds=30)]


def test_what_would_wait_too_long_reserves_nothing(database: Database) -> None:
    limits = RateLimit(requests=1)
    assert reserve(database, limits) == NOW
    assert [reserve(database, limits, within=59) for _ in range(3)] == [None] * 3
    assert reserve(database, limits, within=61) == NOW + timedelta(seconds=60)


def test_no_call_starts_before_a_pause_is_over(database: Database) -> None:
    limits = RateLimit(requests=600)
    reserve(database, limits)

    def hold(seconds: float, at: datetime = NOW) -> None:
        with database.transaction() as connection:
            rate_limits.hold(connection, OPENAI, limits.share_of(0), at, seconds)

    hold(20)
    hold(5)  # a shorter one takes nothing back
    assert reserve(database, limits) == NOW + timedelta(seconds=20)
    hold(20, NOW + timedelta(days=400))  # a clock that went wrong
    hold(50)
    assert reserve(database, limits) == NOW + timedelta(seconds=50)


def test_a_reservation_by_a_clock_that_went_wrong_holds_nobody_up(database: Database) -> None:
    limits = RateLimit(requests=10)
    reserve(database, limits, NOW + timedelta(days=400))
    assert reserve(database, limits) == NOW
