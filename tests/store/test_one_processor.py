"""A busy process stays on one processor, and leaves it when it is not busy or does not get it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Set
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from mailagent import serving
from mailagent.cli import worker
from mailagent.settings import SettingsProblem, load_settings
from mailagent.store.one_processor import OneProcessor, System, one_processor
from mailagent.store.turnstile import Fitting, turnstile
from tests.cast import SUPPORT
from tests.stage import Stage

BUSY, LESS_BUSY, IDLE = 0.9, 0.6, 0.2


class Machine(System):
    """Says where threads may run, and remembers where they were put; the thread that asks is number 1."""

    def __init__(self, *processors: int, problem: OSError | None = None) -> None:
        self.threads: dict[int, Set[int]] = {1: frozenset(processors), 2: frozenset(processors)}
        self.now_on = max(processors)
        self.puts: list[Set[int]] = []
        self.begun_meanwhile: list[int] = []
        self.asks = 1
        self._problem = problem

    def allowed(self, task: int = 0) -> Set[int]:
        if (task or self.asks) not in self.threads:
            raise ProcessLookupError
        return self.threads[task or self.asks]

    def here(self) -> int:
        return self.now_on

    def tasks(self) -> Set[int]:
        return set(self.threads)

    def put(self, task: int, processors: Set[int]) -> None:
        if self._problem:
            raise self._problem
        if self.begun_meanwhile:  # by a thread that was not put anywhere yet
            self.threads[self.begun_meanwhile.pop()] = self.threads[task]
        self.threads[task] = processors
        if processors not in self.puts[-1:]:
            self.puts.append(processors)

    @property
    def may(self) -> set[Set[int]]:
        return set(self.threads.values())


def one(machine: Machine) -> OneProcessor:
    found = OneProcessor(machine)
    found.stay()
    return found


def test_it_stays_where_it_is_while_it_is_busy() -> None:
    machine = Machine(0, 1, 2)
    processor = one(machine)
    for share in (IDLE, LESS_BUSY, BUSY, BUSY, LESS_BUSY):
        processor.look(share)
    assert machine.puts == [{2}]


def test_it_goes_anywhere_when_it_has_less_to_do_or_others_use_the_processor() -> None:
    machine = Machine(0, 1, 2)
    processor = one(machine)
    for share in (BUSY, IDLE, LESS_BUSY):
        processor.look(share)
    assert machine.puts == [{2}, {0, 1, 2}]
    machine.now_on = 0
    processor.look(BUSY)
    assert machine.puts[-1] == {0}


def test_only_a_program_that_asked_for_it_stays() -> None:
    machine = Machine(0, 1)
    OneProcessor(machine).look(BUSY)
    assert machine.puts == []


def test_with_one_processor_there_is_nothing_to_do() -> None:
    machine = Machine(3)
    processor = one(machine)
    for share in (BUSY, IDLE):
        processor.look(share)
    assert machine.puts == []


def test_what_an_operator_has_said_meanwhile_stands() -> None:
    machine = Machine(0, 1, 2)
    processor = one(machine)
    processor.look(BUSY)
    machine.threads = dict.fromkeys(machine.threads, frozenset({0, 1}))
    processor.look(IDLE)
    assert machine.puts == [{2}]


def test_a_thread_that_begins_meanwhile_is_put_where_the_others_are() -> None:
    machine = Machine(0, 1, 2)
    processor = one(machine)
    machine.begun_meanwhile = [3]
    processor.look(BUSY)
    assert machine.may == {frozenset({2})}
    machine.begun_meanwhile = [4]
    processor.look(IDLE)
    assert machine.may == {frozenset({0, 1, 2})}


def test_whichever_thread_looks_the_others_are_freed() -> None:
    machine = Machine(0, 1, 2)
    processor = one(machine)
    processor.look(BUSY)
    machine.threads[7] = frozenset({0, 1, 2})  # one that somebody has freed by hand
    machine.asks = 7
    processor.look(IDLE)
    assert machine.may == {frozenset({0, 1, 2})}


def test_a_thread_that_ends_meanwhile_is_left_out() -> None:
    machine = Machine(0, 1)
    processor = one(machine)
    processor.look(BUSY)
    known = machine.tasks()
    machine.tasks = lambda: known | {9}  # type: ignore[method-assign]
    processor.look(IDLE)
    assert machine.may == {frozenset({0, 1})}


@pytest.mark.parametrize("stays", [True, False])
def test_a_worker_stays_if_its_settings_say_so(
    shop: Stage, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    stayed = watch_stay(monkeypatch)
    for name in ("launch", "stop", "leave"):
        monkeypatch.setattr(worker, name, lambda *_, **__: None)
    asked_to_end = SimpleQueue[int]()
    asked_to_end.put(signal.SIGTERM)
    monkeypatch.setattr(worker, "hear_signals", lambda: asked_to_end)
    monkeypatch.setattr(worker, "_reach_database", lambda _signals: True)
    set_up(shop, stays, "all")
    assert shop.app.test_cli_runner().invoke(args=["worker"]).exit_code == 0
    assert bool(stayed) is stays


@pytest.mark.parametrize("stays", [True, False])
def test_a_process_that_serves_stays_if_its_settings_say_so(
    shop: Stage, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    stayed = watch_stay(monkeypatch)
    set_up(shop, stays, "web")
    serving.post_worker_init(SimpleNamespace(app=SimpleNamespace(callable=shop.app)))
    assert bool(stayed) is stays


def watch_stay(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    stayed: list[bool] = []
    monkeypatch.setattr(one_processor, "stay", lambda: stayed.append(True))
    return stayed


def set_up(shop: Stage, stays: bool, role: str) -> None:
    settings = shop.app.config["MAILAGENT"]
    shop.app.config["MAILAGENT"] = replace(settings, stays_on_one_processor=stays, role=role)


def test_the_setting() -> None:
    environ = {"SECRET_KEY": "a key for tests only", "SUPPORT_ADDRESS": SUPPORT}
    assert load_settings(environ).stays_on_one_processor
    assert not load_settings({**environ, "PROCESSORS": "any"}).stays_on_one_processor
    with pytest.raises(SettingsProblem, match="PROCESSORS is '2'; use one of one, any"):
        load_settings({**environ, "PROCESSORS": "2"})


def test_the_turnstile_of_the_process_tells_it() -> None:
    assert turnstile._fitting._on_share == one_processor.look


def test_where_the_system_refuses_it_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(0, 1, problem=PermissionError("not here"))
    processor = one(machine)
    with caplog.at_level(logging.INFO):
        for share in (BUSY, IDLE, BUSY):
            processor.look(share)
    assert [record.getMessage() for record in caplog.records] == [
        "threads are not kept on one processor: not here"
    ]


def test_the_look_at_the_turnstile_says_how_busy_the_process_was() -> None:
    shares: list[float] = []
    times = iter((0.0, 10.0, 10.0))
    used = iter((0.0, 9.0, 9.0))
    Fitting(2, 4, lambda: next(times), lambda: next(used), shares.append).look()
    assert shares == [0.9]


# In a process of its own: whatever else runs in this one must not be bound.
_REAL = """
import os, threading
from mailagent.store.one_processor import OneProcessor
gate = threading.Event()
threads = [threading.Thread(target=gate.wait, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
def where(): return {frozenset(os.sched_getaffinity(thread.native_id)) for thread in threads}
(before,) = where()
processor = OneProcessor()
processor.stay()
processor.look(1.0)
(busy,) = where()
late = threading.Thread(target=gate.wait, daemon=True)
late.start()
assert os.sched_getaffinity(late.native_id) == busy
processor.look(0.0)
threads.append(late)
(after,) = where()
gate.set()
assert after == before, (before, busy, after)
assert len(busy) == 1 and busy <= before, (before, busy, after)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="only Linux binds threads, and only where there is more than one processor",
)
def test_on_a_real_system_all_threads_stay_and_go() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _REAL], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
