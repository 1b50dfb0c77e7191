"""The step decorator: records an effect and retries it after transient database errors. Also counts the running
steps, so that a worker can drain, and names the crash points of the tests.

DBOS may run a step again from its start. So a step must record in a row what it is about to do outside.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from dbos import DBOS, StepOptions

from mailagent.domain.text import NeedsOperatorError, error_message, tell_error
from mailagent.store.errors import is_outage
from mailagent.telemetry import log_ids, spans

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

Watcher = Callable[[str, str], None]

# Ten tries with nine pauses between them, 0.5 to 128 seconds: about four minutes. By then a PostgreSQL that was
# restarted is back. After a longer outage the sweep enqueues the rows again.
FIRST_PAUSE_SECONDS = 0.5
MOST_TRIES = 10

AROUND = ("before", "after", "recorded")

# Every step by name, with the points at which a process can die in or around it.
CRASH_POINTS: dict[str, tuple[str, ...]] = {}

_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> Callable[[], None]:
    """Call `watcher(step name, point)` at every point of every step from now on. Returns a function that ends
    this."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


def mark(name: str, point: str) -> None:
    """Tell the watchers that a step has reached a point. Points other than AROUND must be declared with
    `declare_marks`."""
    for watcher in _watchers:
        watcher(name, point)


def declare_marks(name: str, *points: str) -> None:
    """Declare the points that a step marks, so that crash tests find them."""
    CRASH_POINTS[name] = (*AROUND, *points)


class StepFailedError(Exception):
    """A step failed because of a bug. DBOS records only this text: the error's type, the module and line, and
    the first line of the error's text, masked because it may quote a customer. The log has the rest."""

    def __init__(self, problem: Exception) -> None:
        text = error_message(type(problem).__name__, str(problem))
        said = f": {tell_error(text)}" if text.strip() else ""
        super().__init__(f"{type(problem).__name__} in {_place_of(problem)}{said}")


class DatabaseUnavailableError(Exception):
    """The database failed at a step's last attempt. DBOS records only this text: the last cause, masked."""

    def __init__(self, problem: Exception) -> None:
        cause = getattr(problem, "orig", None) or problem
        super().__init__(f"{type(problem).__name__}: {tell_error(str(cause))}")


def _is_last_attempt() -> bool:
    status = DBOS.step_status
    if status is None or status.current_attempt is None or status.max_attempts is None:
        return False
    return status.current_attempt + 1 >= status.max_attempts


def _place_of(problem: Exception) -> str:
    """Return the innermost module and line of ours in an error's traceback."""
    ours = [
        f"{frame.f_globals['__name__']}:{line}"
        for frame, line in traceback.walk_tb(problem.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith("mailagent.")
    ]
    return ours[-1] if ours else __name__


def _observed(name: str, effect: Callable[P, R]) -> Callable[P, R]:
    """Return the effect with ids in its log lines, its crash points, and errors whose text is masked."""
    CRASH_POINTS.setdefault(name, AROUND)

    @wraps(effect)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        run_id = DBOS.workflow_id
        if run_id is not None:
            at_work.check()  # a step may have waited long for a thread
        with log_ids.about(*args, run_id=run_id):
            spans.note_ids()
            try:
                mark(name, "before")
                result = effect(*args, **kwargs)
                mark(name, "after")
            except NeedsOperatorError:
                raise
            except Exception as problem:
                if run_id is None or (is_outage(problem) and not _is_last_attempt()):
                    raise
                if is_outage(problem):
                    raise DatabaseUnavailableError(problem) from problem
                raise StepFailedError(problem) from problem
        return result

    return run


def _options(name: str) -> StepOptions:
    return StepOptions(
        name=name,
        retries_allowed=True,
        interval_seconds=FIRST_PAUSE_SECONDS,
        backoff_rate=2.0,
        max_attempts=MOST_TRIES,
        should_retry=is_outage,
    )


def retry_outages(effect: Callable[[], R]) -> R:
    """Run a database effect inside a step; retry it after outages as often as a step is retried.

    Use this to record the answer of an external call: a retry of the whole step would make the call again.
    """
    pause_seconds = FIRST_PAUSE_SECONDS
    for _ in range(MOST_TRIES - 1):
        try:
            return effect()
        except Exception as problem:
            if at_work.is_leaving or not is_outage(problem):
                raise
            logger.warning(
                "event=database_unavailable: cannot record; trying again in %s s", pause_seconds
            )
        time.sleep(pause_seconds)
        pause_seconds *= 2.0
    return effect()


def step(effect: Callable[P, R]) -> Callable[P, R]:
    """Make an effect a recorded step for synchronous workflow bodies.

    Outside a run, as in tests, it just does the effect.
    """
    name = effect.__name__.removeprefix("_")
    observed = _observed(name, effect)

    @wraps(effect)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if DBOS.workflow_id is None:
            return observed(*args, **kwargs)
        with at_work.one_step():
            result = DBOS.run_step(_options(name), observed, *args, **kwargs)
            mark(name, "recorded")
        return result

    return run


def async_step(effect: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Make an effect a recorded step for `async` bodies. The effect itself runs in a thread."""
    name = effect.__name__.removeprefix("_")
    observed = _observed(name, effect)

    @wraps(effect)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with at_work.one_step():
            result = await DBOS.run_step_async(_options(name), observed, *args, **kwargs)
            mark(name, "recorded")
        return result

    return run


# --- at work --------------------------------------------------------------------------------------


class Left(asyncio.CancelledError):
    """This process begins no more steps; another worker continues the run.

    It is a BaseException and not an Exception, so DBOS records nothing and the run stays as it is.
    """


class AtWork:
    """Counts the steps that this process has begun and not recorded yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._steps = 0
        self._leaving = False

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """Count a step while it lasts. Raises Left when no more may begin."""
        with self._changed:
            self.check()
            self._steps += 1
        try:
            yield
        finally:
            with self._changed:
                self._steps -= 1
                self._changed.notify_all()

    def check(self) -> None:
        """Raise Left when no more steps may begin."""
        if self._leaving:
            raise Left

    @property
    def is_leaving(self) -> bool:
        """Whether no more steps may begin. A long step then ends as soon as it can."""
        return self._leaving

    def open(self) -> None:
        """Let steps begin, and start to count at 0."""
        with self._changed:
            self._leaving, self._steps = False, 0

    def leave(self) -> None:
        """Let no more steps begin; running ones go on."""
        with self._changed:
            self._leaving = True

    def wait_until_done(self, seconds: float, hurry: Callable[[], bool]) -> bool:
        """Wait until the running steps have ended, for at most `seconds`, or until `hurry` returns true.
        Returns whether they have ended."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._steps > 0 and time.monotonic() < deadline and not hurry():
                self._changed.wait(0.1)
            return self._steps <= 0


at_work = AtWork()
