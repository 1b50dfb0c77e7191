"""Turns as a row, on both databases: all workers together keep the limit, and nobody books for ever."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from mailagent.domain.operations.circuit_breaker import Provider
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.store.database import Database
from mailagent.store.operations import rate_limits
from tests.cast import NOW


def book(
    database: Database, limits: RateLimit, at: datetime = NOW, tokens: int = 1, within: float = 600
) -> datetime | None:
    with database.transaction() as connection:
        return rate_limits.book(connection, Provider.OPENAI, limits.step(tokens), at, within)


def test_all_who_ask_at_once_get_turns_one_behind_the_other(database: Database) -> None:
    limits = RateLimit(requests=60)
    with ThreadPoolExecutor(8) as workers:
        turns = list(workers.map(lambda _: book(database, limits), range(90)))
    starts = sorted(turn for turn in turns if turn is not None)
    assert len(starts) == 90
    assert starts[0] == NOW
    for start in starts:
        within = [each for each in starts if start <= each < start + timedelta(seconds=60)]
        assert len(within) <= 60


def test_tokens_that_one_worker_has_booked_make_the_others_wait(database: Database) -> None:
    limits = RateLimit(tokens=6_000)
    assert book(database, limits, tokens=1_500) == NOW
    turns = [book(database, limits, tokens=1_500) for _ in range(2)]
    # Half of them may start at once, the other half evenly.
    assert turns == [NOW, NOW + timedelta(seconds=30)]


def test_what_would_wait_too_long_books_nothing(database: Database) -> None:
    limits = RateLimit(requests=1)
    assert book(database, limits) == NOW
    assert [book(database, limits, within=59) for _ in range(3)] == [None] * 3
    assert book(database, limits, within=61) == NOW + timedelta(seconds=60)


def test_no_call_starts_before_a_pause_is_over(database: Database) -> None:
    limits = RateLimit(requests=600)
    book(database, limits)

    def hold(seconds: float, at: datetime = NOW) -> None:
        with database.transaction() as connection:
            rate_limits.hold(connection, Provider.OPENAI, limits.step(0), at, seconds)

    hold(20)
    hold(5)  # a shorter one takes nothing back
    assert book(database, limits) == NOW + timedelta(seconds=20)
    hold(20, NOW + timedelta(days=400))  # a clock that went wrong
    hold(50)
    assert book(database, limits) == NOW + timedelta(seconds=50)


def test_a_booking_by_a_clock_that_went_wrong_holds_nobody_up(database: Database) -> None:
    limits = RateLimit(requests=10)
    book(database, limits, NOW + timedelta(days=400))
    assert book(database, limits) == NOW
