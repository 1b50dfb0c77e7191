"""One clock for all processes: the database's, however wrong the machines' are."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from mailagent.store import clock
from mailagent.store.clock import DatabaseClock, SteadyClock, find_skew, open_clock
from mailagent.store.database import Database, open_database

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Times:
    """A database's clock, a machine's, and seconds that pass; a test sets them."""

    def __init__(self) -> None:
        self.database = self.machine = NOON
        self.elapsed = 1000.0
        self.asked = 0
        self.away = False
        self.answers_after = 0.0

    def ask(self) -> datetime:
        self.asked += 1
        if self.away:
            raise sa.exc.TimeoutError("no connection is free")
        self.elapsed += self.answers_after
        return self.database

    def pass_seconds(self, seconds: float) -> None:
        self.elapsed += seconds
        self.database += timedelta(seconds=seconds)
        self.machine += timedelta(seconds=seconds)

    def clock(self) -> DatabaseClock:
        return DatabaseClock(self.ask, lambda: self.machine, lambda: self.elapsed)


def answered() -> None:
    """Wait until no question to a database is under way."""
    for thread in threading.enumerate():
        if thread.name == "clock":
            thread.join(20)


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.mark.parametrize("off", [timedelta(hours=-1), timedelta(days=1), timedelta(days=-400)])
def test_the_machines_own_clock_does_not_matter(times: Times, off: timedelta) -> None:
    times.machine += off
    now = times.clock()
    assert now() == NOON
    times.machine -= 3 * off  # somebody sets it
    times.pass_seconds(7)
    assert now() == NOON + 7 * SECOND
    assert times.asked == 1


def test_the_database_is_asked_again_now_and_then_beside_the_caller(times: Times) -> None:
    now = times.clock()
    now()
    times.pass_seconds(clock.ASK_AGAIN_AFTER_SECONDS)
    now()
    assert times.asked == 1
    times.database += timedelta(hours=1)  # it was set
    times.pass_seconds(1)
    now()
    answered()
    assert now() == times.database
    assert times.asked == 2


def test_a_machine_that_slept_has_the_time_at_once(times: Times) -> None:
    now = times.clock()
    now()
    times.pass_seconds(86_400)
    assert now() == NOON + timedelta(days=1)


def test_the_time_goes_on_while_the_database_is_away(times: Times) -> None:
    now = times.clock()
    now()
    times.away = True
    for _ in range(3):
        times.pass_seconds(clock.ASK_AGAIN_AFTER_SECONDS + 1)
        expected = times.database
        assert now() == expected
        answered()
    assert times.asked == 4


def test_there_is_no_time_before_the_database_was_reached(times: Times) -> None:
    times.away = True
    now = times.clock()
    for _ in range(2):
        with pytest.raises(sa.exc.TimeoutError):
            now()
    times.away = False
    assert now() == NOON


def test_a_slow_answer_is_taken_for_the_middle_of_the_wait(times: Times) -> None:
    times.answers_after = 2.0
    assert times.clock()() == NOON + SECOND


@pytest.mark.parametrize(
    ("off", "words"),
    [
        (timedelta(seconds=4.9), None),
        (timedelta(seconds=-5), None),
        (timedelta(seconds=5.1), "5 s ahead of the database's"),
        (timedelta(hours=-1), "3600 s behind the database's"),
    ],
)
def test_a_clock_that_is_off_is_told_of_once(
    times: Times, caplog: pytest.LogCaptureFixture, off: timedelta, words: str | None
) -> None:
    times.machine += off
    now = times.clock()
    with caplog.at_level(logging.WARNING):
        for asked in range(1, 4):
            now()
            answered()
            assert times.asked == asked
            times.pass_seconds(clock.ASK_AGAIN_AFTER_SECONDS + 1)
    assert [
        each.message for each in caplog.records if words is None or words not in each.message
    ] == []
    assert len(caplog.records) == (words is not None)


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (timedelta(seconds=1), timedelta(seconds=1)),
        (timedelta(milliseconds=-1), timedelta(0)),
        (timedelta(seconds=-4.9), timedelta(0)),
        (timedelta(seconds=-5), timedelta(seconds=-5)),
        (timedelta(days=-1), timedelta(days=-1)),
        (timedelta(days=1), timedelta(days=1)),
    ],
)
def test_a_small_step_back_is_not_shown_and_a_long_one_is_followed(
    step: timedelta, shown: timedelta
) -> None:
    moments = iter([NOON, NOON + step])
    now = SteadyClock(lambda: next(moments))
    assert now() == NOON
    assert now() == NOON + shown


def test_on_postgresql_it_is_the_servers_and_on_sqlite_the_machines(database: Database) -> None:
    now = open_clock(database)
    earlier = now()
    assert abs(earlier - clock.machine_time()) < timedelta(seconds=30)
    assert all(now() >= earlier for _ in range(100))
    assert abs(find_skew(database)) < timedelta(seconds=30)


def test_a_database_that_cannot_be_reached_is_an_outage_and_not_another_time() -> None:
    database = open_database("postgresql+psycopg://nobody@127.0.0.1:9/none")
    with pytest.raises(sa.exc.OperationalError):
        open_clock(database)()
    database.close()
