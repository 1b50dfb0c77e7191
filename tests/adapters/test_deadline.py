"""A server that sends a byte now and then holds nobody for longer than a call may take."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar

import pytest

from mailagent.adapters.http import within
from tests.harness import wait_until


def test_what_a_call_returns_or_raises_comes_through() -> None:
    assert within(5, lambda: 17) == 17
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_call_that_hangs_holds_nobody_and_its_thread_ends_after_it() -> None:
    over, theirs = threading.Event(), []

    def hang() -> None:
        theirs.append(threading.current_thread())
        over.wait()

    with pytest.raises(TimeoutError):
        within(0.05, hang)
    assert within(5, lambda: 17) == 17
    time.sleep(0.2)
    assert theirs[0].is_alive()
    over.set()
    wait_until(lambda: not theirs[0].is_alive(), 5, "the end of the thread")


def test_nothing_of_a_call_is_left_for_the_next() -> None:
    mail: ContextVar[str] = ContextVar("mail", default="none")
    whose = mail.set("ours")
    assert within(5, lambda: (mail.get(), mail.set("theirs")))[0] == "ours"
    mail.reset(whose)
    assert within(5, mail.get) == "none"
