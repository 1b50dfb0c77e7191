"""HTTP without surprises: a time limit on a whole call, and the Retry-After header (RFC 9110).

The time-outs of HTTP clients are for each read; a server that sends a byte now and then, or a resolver that
hangs, would hold its caller for ever.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from email.utils import mktime_tz, parsedate_tz
from queue import Empty, SimpleQueue
from typing import TypeVar

R = TypeVar("R")

# Of a time-out for each read: an answer that comes steadily, but slowly, is worth waiting for.
SHARE = 1.5

# How long a thread waits for its next call; to start one takes a millisecond.
REST_SECONDS = 30.0


def within(seconds: float, call: Callable[[], R]) -> R:
    """Return what `call` returns, or raise what it raises. Raises TimeoutError after `seconds`.

    The call itself goes on then: what it still does is as unknown as after any time-out.
    """
    return begin(call).result(timeout=seconds)


def begin(call: Callable[[], R]) -> Future[R]:
    """Begin a call and return what will have its answer, for several to wait for.

    It goes on in a thread that nobody else uses meanwhile and that keeps no process alive.
    """
    answer: Future[R] = Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            answer.set_exception(error)

    _crew.do(run)
    return answer


class _Crew:
    """Threads that have done a call and wait for the next one."""

    def __init__(self) -> None:
        # The one that rests for the shortest time is the last, so those that nobody needs end.
        self._resting: list[SimpleQueue[Callable[[], None]]] = []

    def do(self, run: Callable[[], None]) -> None:
        """Have one of the threads, or a new one, do this."""
        try:
            # One step of the interpreter, as are `append` and `remove`: two threads never get the same.
            calls = self._resting.pop()
        except IndexError:
            calls = SimpleQueue()
            threading.Thread(target=self._work, args=(calls,), name="deadline", daemon=True).start()
        calls.put(run)

    def _work(self, calls: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            try:
                run = calls.get(timeout=REST_SECONDS)
            except Empty:
                try:
                    self._resting.remove(calls)
                except ValueError:
                    continue  # somebody has just taken this one, and its call comes
                return
            run()
            del run  # with all that it holds of its call
            self._resting.append(calls)


_crew = _Crew()


# --- retry after ----------------------------------------------------------------------------------


LONGEST_WAIT_SECONDS = 3600.0


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait, or None if it does not say or makes no sense.

    `retry-after-ms` is OpenAI's; Retry-After is seconds or a date (RFC 9110 section 10.2.3). Names are
    looked up in lower case.
    """
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return within_reason(float(headers.get(name, "")) / divisor)
        except ValueError:
            continue
    date = parsedate_tz(headers.get("retry-after", ""))
    try:
        return within_reason(mktime_tz(date) - time.time()) if date else None
    except (ValueError, OverflowError):
        return None


def within_reason(seconds: float) -> float | None:
    """Return a wait, at most an hour; None for one that makes no sense."""
    if math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, LONGEST_WAIT_SECONDS)
