"""A busy process stays on one processor, and leaves it when it is not busy or does not get it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Set

import pytest

from mailagent.store.one_processor import OneProcessor, System
from mailagent.store.turnstile import Fitting

BUSY, LESS_BUSY, IDLE = 0.9, 0.6, 0.2


class Machine(System):
    """Says where threads may run, and remembers where they were put."""

    def __init__(self, *processors: int, problem: OSError | None = None) -> None:
        self.may: Set[int] = frozenset(processors)
        self.now_on = max(processors)
        self.puts: list[Set[int]] = []
        self._problem = problem

    def allowed(self) -> Set[int]:
        return self.may

    def here(self) -> int:
        return self.now_on

    def put(self, processors: Set[int]) -> None:
        if self._problem:
            raise self._problem
        self.may = processors
        self.puts.append(processors)


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
    machine.may = frozenset({0, 1})
    processor.look(IDLE)
    assert machine.puts == [{2}]


def test_where_the_system_refuses_it_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(0, 1, problem=PermissionError("not here"))
    processor = one(machine)
    with caplog.at_level(logging.INFO):
        for share in (BUSY, IDLE, BUSY):
            processor.look(share)
    assert [record.getMessage() for record in caplog.records] == [
        "the threads stay where the system puts them: not here"
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
threads = [threading.Thread(target=gate.wait) for _ in range(3)]
for thread in threads: thread.start()
def where(): return {frozenset(os.sched_getaffinity(thread.native_id)) for thread in threads}
(before,) = where()
processor = OneProcessor()
processor.stay()
processor.look(1.0)
(busy,) = where()
late = threading.Thread(target=gate.wait)
late.start()
assert os.sched_getaffinity(late.native_id) == busy
processor.look(0.0)
threads.append(late)
(after,) = where()
gate.set()
assert after == before, (before, busy, after)
assert len(busy) == 1 and busy <= before, (before, busy, after)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds threads")
def test_on_a_real_system_all_threads_stay_and_go() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _REAL], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
