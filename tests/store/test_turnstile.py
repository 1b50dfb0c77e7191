"""So many threads are in the database at once, and no more; nobody waits for long, and no place is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from mailagent.store import turnstile
from mailagent.store.database import Database, open_database
from mailagent.store.turnstile import Fitting, Place, Turnstile

# SQLite's pools have no turnstile.
postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

AT_ONCE = 2
LONG = 60.0


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Turnstile:
    """Let two in at once, and have the others wait for as long as it takes."""
    found = Turnstile(Fitting(AT_ONCE, AT_ONCE))
    monkeypatch.setattr(turnstile, "turnstile", found)
    monkeypatch.setattr(turnstile, "PATIENCE_SECONDS", LONG)
    return found


@pytest.fixture
def database(database_url: str, places: Turnstile) -> Iterator[Database]:
    opened = open_database(database_url)
    yield opened
    opened.close()


def free_places(places: Turnstile) -> int:
    """Return how many others could go in now without waiting."""
    together = threading.Barrier(AT_ONCE + 1)

    def ask() -> Place | None:
        together.wait()  # else one thread might ask twice
        return places.enter(0.05)

    with ThreadPoolExecutor(AT_ONCE + 1) as threads:
        asked = [threads.submit(ask) for _ in range(AT_ONCE + 1)]
        taken = [each.result() for each in asked]
    for place in taken:
        if place:
            place.leave()
    return sum(place is not None for place in taken)


def all_are_free(places: Turnstile) -> bool:
    return free_places(places) == AT_ONCE


def in_threads(count: int, work: Callable[[], object], until: threading.Event) -> ExitStack:
    """Have so many threads, which begin at once, do something again and again until told."""

    def again() -> None:
        while not until.is_set():
            work()

    stack = ExitStack()
    threads = stack.enter_context(ThreadPoolExecutor(count))
    for _ in range(count):
        threads.submit(again)
    stack.callback(until.set)
    return stack


@postgresql
def test_no_more_are_in_the_database_than_may_and_all_come_through(
    database: Database, places: Turnstile
) -> None:
    inside, most, lock = [0], [0], threading.Lock()

    def work(number: int) -> int:
        with database.transaction() if number % 2 else database.snapshot() as connection:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            connection.execute(sa.text("SELECT pg_sleep(0.01)"))
            with lock:
                inside[0] -= 1
        return number

    with ThreadPoolExecutor(12) as threads:
        assert sorted(threads.map(work, range(40))) == list(range(40))
    assert most[0] == AT_ONCE
    assert all_are_free(places)


@postgresql
def test_two_engines_share_the_places(
    database: Database, database_url: str, places: Turnstile
) -> None:
    other = open_database(database_url, name="another")
    with database.snapshot(), ThreadPoolExecutor(1) as thread:
        assert free_places(places) == AT_ONCE - 1
        held = thread.submit(other.engine.connect).result()
        assert free_places(places) == AT_ONCE - 2
        held.close()
    other.close()
    assert all_are_free(places)


@postgresql
def test_who_is_inside_goes_in_again_without_waiting_and_takes_nobodys_place(
    database: Database, places: Turnstile
) -> None:
    with database.snapshot(), database.snapshot(), database.snapshot() as third:
        assert third.scalar(sa.select(1)) == 1
        assert free_places(places) == AT_ONCE - 1
    assert all_are_free(places)


def test_nobody_waits_behind_those_who_come_again_and_again(places: Turnstile) -> None:
    def work() -> None:
        place = places.enter(LONG)
        time.sleep(0.001)
        assert place is not None
        place.leave()

    waits = []
    with in_threads(12, work, threading.Event()):
        for _ in range(20):
            began = time.monotonic()
            place = places.enter(LONG)
            waits.append(time.monotonic() - began)
            assert place is not None
            place.leave()
            time.sleep(0.005)
    # Each turn is some milliseconds; whoever is overtaken waits for seconds.
    assert max(waits) < 1
    assert all_are_free(places)


def test_of_all_who_wait_for_those_who_are_stuck_only_the_first_waits_long(
    places: Turnstile,
) -> None:
    inside, done = threading.Barrier(AT_ONCE + 1), threading.Event()

    def hold() -> None:
        place = places.enter(LONG)
        inside.wait()
        done.wait()
        assert place is not None
        place.leave()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        held = [threads.submit(hold) for _ in range(AT_ONCE)]
        inside.wait()
        began = time.monotonic()
        assert [places.enter(0.3) for _ in range(6)] == [None] * 6
        waited = time.monotonic() - began
        done.set()
        for each in held:
            each.result()
    assert 0.3 <= waited < 1.5
    assert all_are_free(places)


@postgresql
def test_a_connection_that_is_lost_or_taken_out_or_never_made_leaves_its_place(
    database: Database, places: Turnstile
) -> None:
    with database.snapshot() as connection:
        connection.invalidate()
    kept = database.engine.raw_connection()
    kept.detach()
    assert all_are_free(places)
    kept.close()
    nowhere = open_database("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=2")
    for _ in range(AT_ONCE + 1):
        with pytest.raises(sa.exc.OperationalError), nowhere.snapshot():
            pass
    assert all_are_free(places)


@postgresql
def test_a_pool_that_was_made_anew_has_the_turnstile_too(
    database: Database, places: Turnstile
) -> None:
    for _ in range(3):
        database.engine.dispose()
        with database.snapshot():
            assert free_places(places) == AT_ONCE - 1
    assert all_are_free(places)


class Worked:
    """A process of which it is known how long it has lived and how long it was busy, in seconds."""

    def __init__(self) -> None:
        self.now = self.used = 0.0
        self.fitting = Fitting(2, 4, lambda: self.now, lambda: self.used)

    def pass_by(self, share: float, waited: bool, looks: int = 1) -> int:
        """Let it be busy for a share of the time between two looks; return how many may go in then."""
        for _ in range(looks):
            self.now += Fitting.LOOK_SECONDS
            self.used += Fitting.LOOK_SECONDS * share
            if waited:
                self.fitting.note_waiting()
            self.fitting.look()
        return self.fitting.at_once


def test_more_go_in_while_somebody_waits_and_the_process_has_time() -> None:
    worked = Worked()
    assert worked.pass_by(0.3, waited=False, looks=9) == 2
    assert worked.pass_by(0.3, waited=True) == 3
    assert worked.pass_by(0.3, waited=True, looks=9) == 4


def test_fewer_go_in_when_the_process_is_busy_without_pause() -> None:
    worked = Worked()
    assert worked.pass_by(0.3, waited=True, looks=9) == 4
    assert worked.pass_by(0.7, waited=True, looks=9) == 4  # neither busy nor at rest
    assert worked.pass_by(0.95, waited=True) == 3
    assert worked.pass_by(0.95, waited=True, looks=9) == 2


def test_it_looks_now_and_then_only() -> None:
    worked = Worked()
    worked.fitting.note_waiting()
    worked.now += Fitting.LOOK_SECONDS / 2
    worked.fitting.look()
    assert worked.fitting.at_once == 2


def test_who_waits_goes_in_when_more_may() -> None:
    worked = Worked()
    places = Turnstile(worked.fitting)
    with ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(4)]
        first, second = (thread.submit(places.enter, 0).result(LONG) for thread in threads[:2])
        assert first
        assert second
        worked.now += Fitting.LOOK_SECONDS  # of which it was busy for nothing
        worked.fitting.note_waiting()
        asked = [thread.submit(places.enter, 2.0) for thread in threads[2:]]
        time.sleep(0.1)
        first.leave()
        assert all(each.result(LONG) for each in asked)
