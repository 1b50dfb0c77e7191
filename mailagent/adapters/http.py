"""A time limit for a whole HTTP call, and the Retry-After header (RFC 9110).

The time-outs of HTTP clients apply to single reads. A server that sends a byte now and then, or a DNS resolver
that hangs, would block its caller for ever.
"""

from __future__ import annotations

import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from email.utils import mktime_tz, parsedate_tz
from functools import cache
from typing import TypeVar

R = TypeVar("R")

# A whole call may take this many times the time-out of a single read.
SHARE = 1.5


def within(seconds: float, call: Callable[[], R]) -> R:
    """Return what `call` returns, or raise what it raises. Raises TimeoutError after `seconds`.

    After a time-out the call goes on in its thread, so its outcome is unknown.
    """
    return begin(call).result(timeout=seconds)


_ends_at: ContextVar[float] = ContextVar("when the calls must have ended", default=math.inf)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Give all calls of this block together so many seconds: each looks at `seconds_left`."""
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(token)


def seconds_left() -> float:
    """Return what is left of the time that `limited` gives; without one, infinity."""
    return _ends_at.get() - time.monotonic()


def begin(call: Callable[[], R]) -> Future[R]:
    """Run a call in a daemon thread, with a copy of the caller's context. Return its future."""
    answer: Future[R] = Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - Future.result raises it
            answer.set_exception(error)

    threading.Thread(target=run, name="deadline", daemon=True).start()
    return answer


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS settings that our HTTP clients share, because it is slow to read all certificates for
    each."""
    import httpx2  # here, because web processes that send nothing do not need it

    return httpx2.create_ssl_context()


# --- retry after ----------------------------------------------------------------------------------


LONGEST_WAIT_SECONDS = 3600.0


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the server asks us to wait; None if it does not say.

    `retry-after-ms` is OpenAI's. Retry-After is seconds or a date (RFC 9110 section 10.2.3). The names in
    `headers` must be in lower case, or `headers` must ignore case.
    """
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return within_reason(float(headers.get(name, "")) / divisor)
        except ValueError:
            continue
    until = _read_date(headers.get("retry-after", ""))
    return None if until is None else within_reason(until - answered_at(headers))


def answered_at(headers: Mapping[str, str]) -> float:
    """Return the Unix time of an answer by its server's clock, or by ours, which may be wrong."""
    at = _read_date(headers.get("date", ""))
    return time.time() if at is None else at


def _read_date(text: str) -> float | None:
    date = parsedate_tz(text)
    try:
        return mktime_tz(date) if date else None
    except (ValueError, OverflowError):
        return None


def within_reason(seconds: float) -> float | None:
    """Return a wait in seconds, cut to an hour; None for a negative one."""
    if math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, LONGEST_WAIT_SECONDS)
