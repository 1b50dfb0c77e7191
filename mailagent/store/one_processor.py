"""Keeps a busy process on one processor.

Python runs one thread of a process at a time. On several processors each statement that a thread waits for
wakes another thread on another processor, and the two then fight for the turn; that costs a quarter of what a
mail costs (decision 46). Linux only; elsewhere, and where the system does not let us, nothing is done.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Set
from pathlib import Path

logger = logging.getLogger(__name__)

_TASKS = Path("/proc/self/task")
_THIS_THREAD = Path("/proc/thread-self/stat")
# Counted from behind the name, which may hold blanks: field 39 of proc_pid_stat(5).
_PROCESSOR_FIELD = 36


class System:
    """What the operating system is asked for. Raises OSError where it does not know, or does not let us."""

    def allowed(self, task: int = 0) -> Set[int]:
        """Return the processors that a thread may run on; 0: the one that asks. Raises ProcessLookupError if it
        has ended."""
        if not hasattr(os, "sched_getaffinity"):
            raise OSError("the system does not say which processors a thread may run on")
        return os.sched_getaffinity(task)

    def here(self) -> int:
        """Return the processor that this thread runs on."""
        return int(_THIS_THREAD.read_text().rpartition(")")[2].split()[_PROCESSOR_FIELD])

    def tasks(self) -> Set[int]:
        """Return the threads of this process, by the numbers that the system gives them."""
        return {int(task.name) for task in _TASKS.iterdir()}

    def put(self, task: int, processors: Set[int]) -> None:
        """Let a thread run on these processors, and those that it begins. Raises as `allowed` does."""
        os.sched_setaffinity(task, processors)


class OneProcessor:
    """Puts all threads of this process on the processor where one of them is, once they are `BUSY`; lets them
    go where they want when they are not, or others use that processor, too: two busy processes that share one
    get half of it each."""

    # Of the time of one processor. Between them lies what staying saves: else it would come and go.
    BUSY, SHARED = 0.7, 0.5

    def __init__(self, system: System | None = None) -> None:
        self._system = system or System()
        self._wanted = False
        self._before: Set[int] = frozenset()
        self._stays: frozenset[int] | None = None

    def stay(self) -> None:
        """Stay on one processor whenever the process is busy, from now on. Programs that only serve and work
        want that; one that begins other programs does not, since those would inherit the processor."""
        self._wanted = True

    def look(self, share: float) -> None:
        """Do what fits the share of a processor's time that the process has used since the last look."""
        if not self._wanted:
            return
        try:
            if self._stays is None and share > self.BUSY:
                self._bind()
            elif self._stays is not None and share < self.SHARED:
                self._free()
        except (OSError, ValueError, IndexError) as problem:
            logger.info("threads are not kept on one processor: %s", problem)
            self._wanted = False

    def _bind(self) -> None:
        before = self._system.allowed()
        if len(before) > 1:
            here = frozenset({self._system.here()})
            self._before, self._stays = before, here
            self._put_each(here, lambda _task: True)

    def _free(self) -> None:
        stays, self._stays = self._stays, None
        # A thread that is not where we have put it was put elsewhere by somebody else, who knows why.
        self._put_each(self._before, lambda task: self._system.allowed(task) == stays)

    def _put_each(self, processors: Set[int], is_meant: Callable[[int], bool]) -> None:
        seen: set[int] = set()
        # Until there is none that we have not seen: a thread that begins meanwhile may be of either sort.
        while new := self._system.tasks() - seen:
            seen |= new
            for task in new:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    if is_meant(task):
                        self._system.put(task, processors)


one_processor = OneProcessor()
