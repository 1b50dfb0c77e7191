"""The step decorator: records an effect, retries it after transient database errors, and names the crash
points of the tests (`mark`, `watch`). Also counts the steps at work, so that a worker can drain.

A step may be retried from its start, so it must record in a row what it is about to do outside.
"""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from dbos import DBOS, StepOptions

from mailagent.domain.text import NeedsOperatorError
from mailagent.store.errors import is_outage
from mailagent.telemetry import log_ids, spans

P = ParamSpec("P")
R = TypeVar("R")

Watcher = Callable[[str, str], None]

# Ten tries with nine pauses between them, 0.5 to 128 seconds: about five minutes in all, by which
# time a PostgreSQL that was restarted is back. What lasts longer is the sweep's.
FIRST_PAUSE_SECONDS = 0.5
MOST_TRIES = 10

AROUND = ("before", "after", "recorded")

# Every step by name, with the points at which a process can die in or around it.
CRASH_POINTS: dict[str, tuple[str, ...]] = {}

_watchers: list[Watcher] = []
_most_tries = [MOST_TRIES]


def try_no_more_than(tries: int) -> Callable[[], None]:
    """Give up after so many tries from now on, until what this returns is called. Only tests have so little
    patience; nothing else uses it."""
    _most_tries.append(tries)
    return lambda: _most_tries.remove(tries)


def watch(watcher: Watcher) -> Callable[[], None]:
    """Call `watcher(step name, "before" | "after" | "recorded")` at every step from now on, until what
    this returns is called."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


def mark(name: str, point: str) -> None:
    """Say that the step `name` has come to `point` of its effect; declared with `declare_marks`."""
    _pass(name, point)


def _pass(name: str, point: str) -> None:
    for watcher in _watchers:
        watcher(name, point)


def _name(effect: Callable[P, R]) -> str:
    return effect.__name__.removeprefix("_")


class StepFailedError(Exception):
    """A step failed by a mistake. The text is all that is recorded of it: which kind of error, and where. Its
    own words may be a customer's; the log has them, under this one."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(f"{type(problem).__name__} in {_place_of(problem)}; the log has the rest")


def _place_of(problem: Exception) -> str:
    """Return the module and the line of ours in which an error came up, the innermost."""
    ours = [
        f"{frame.f_globals['__name__']}:{line}"
        for frame, line in traceback.walk_tb(problem.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith("mailagent.")
    ]
    return ours[-1] if ours else __name__


def _watched(effect: Callable[P, R]) -> Callable[P, R]:
    name = _name(effect)
    CRASH_POINTS.setdefault(name, AROUND)

    def done(*args: P.args, **kwargs: P.kwargs) -> R:
        _pass(name, "before")
        result = effect(*args, **kwargs)
        _pass(name, "after")
        return result

    @wraps(effect)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        run_id = DBOS.workflow_id
        if run_id is not None:
            # With a backlog it waited for a thread for long; and another try is a beginning, too.
            at_work.check()
        with log_ids.about(*args, run_id=run_id):
            spans.note_ids()
            if run_id is None:
                return done(*args, **kwargs)
            try:
                return done(*args, **kwargs)
            except NeedsOperatorError:
                raise
            except Exception as problem:
                if is_outage(problem):  # tried again; in the end DBOS records that it was in vain
                    raise
                raise StepFailedError(problem) from problem

    return run


def declare_marks(name: str, *points: str) -> None:
    """Declare the points that a step's effect marks, so that crash tests find them."""
    CRASH_POINTS[name] = (*AROUND, *points)


def _options(name: str) -> StepOptions:
    return StepOptions(
        name=name,
        retries_allowed=True,
        interval_seconds=FIRST_PAUSE_SECONDS,
        backoff_rate=2.0,
        max_attempts=_most_tries[-1],
        should_retry=is_outage,
    )


def step(effect: Callable[P, R]) -> Callable[P, R]:
    """Make an effect a recorded step for workflow bodies that block their thread.

    Called outside a run, as tests do, it is just done.
    """
    name, watched = _name(effect), _watched(effect)

    @wraps(effect)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if DBOS.workflow_id is None:
            return watched(*args, **kwargs)
        with at_work.one_step():
            result = DBOS.run_step(_options(name), watched, *args, **kwargs)
            _pass(name, "recorded")
        return result

    return run


def async_step(effect: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Make an effect a recorded step for `async` bodies; the effect itself runs off the loop."""
    name, watched = _name(effect), _watched(effect)

    @wraps(effect)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with at_work.one_step():
            result = await DBOS.run_step_async(_options(name), watched, *args, **kwargs)
            _pass(name, "recorded")
        return result

    return run


# --- at work --------------------------------------------------------------------------------------


class Left(asyncio.CancelledError):
    """This process begins no more steps; the run goes on elsewhere.

    Not an Exception, so DBOS records nothing of it and the run stays as it is.
    """


class AtWork:
    """Counts the steps of runs from their beginning until they are recorded."""

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
        """Raise Left when no more may begin: for a step that had to wait for a thread."""
        if self._leaving:
            raise Left

    @property
    def is_leaving(self) -> bool:
        """Whether no more steps may begin: one that lasts ends as soon as it can."""
        return self._leaving

    def open(self) -> None:
        """Let steps begin."""
        with self._changed:
            self._leaving, self._steps = False, 0

    def leave(self) -> None:
        """Let no more steps begin; those at work go on."""
        with self._changed:
            self._leaving = True

    def wait_until_done(self, seconds: float, hurry: Callable[[], bool]) -> bool:
        """Wait for the steps at work to end, at most so long and until somebody is in a hurry. Returns
        whether they have."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._steps > 0 and time.monotonic() < deadline and not hurry():
                self._changed.wait(0.1)
            return self._steps <= 0


at_work = AtWork()
