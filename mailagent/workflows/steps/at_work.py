"""How many steps this process is in the middle of, and whether more may begin: for a process that is to end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
