"""A call with an end: whatever a server does, whoever asked it goes on in time.

The time-outs of HTTP clients are for each read, so a server that sends a byte now and then, or a resolver
that hangs, would hold its caller for as long as it likes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

R = TypeVar("R")

# Of a time-out for each read: an answer that comes steadily, but slowly, is worth waiting for.
SHARE = 1.5


def within(seconds: float, call: Callable[[], R]) -> R:
    """Return what `call` returns, or raise what it raises. Raises TimeoutError after `seconds`.

    The call itself goes on then, in a thread of its own that keeps no process alive: what it still does
    is as unknown as after any time-out.
    """
    answer: Future[R] = Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            answer.set_exception(error)

    threading.Thread(target=run, name="deadline", daemon=True).start()
    return answer.result(timeout=seconds)
