"""Keeps a busy process on one processor.

Python runs one thread of a process at a time. On several processors each statement that a thread waits for
wakes another thread on another processor, and the two then fight for the turn; that costs a quarter of what a
mail costs (decision 46). Linux only; elsewhere, and where the system does not let us, nothing is done.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Set
from pathlib import Path

logger = logging.getLogger(__name__)

_TASKS = Path("/proc/self/task")
_THIS_THREAD = Path("/proc/thread-self/stat")
# Counted from behind the name, which may hold blanks: field 39 of proc_pid_stat(5).
_PROCESSOR_FIELD = 36


class System:
    """What the operating system is asked for. Raises OSError where it does not know, or does not let us."""

    def allowed(self) -> Set[int]:
        """Return the processors that this thread may run on."""
        if not hasattr(os, "sched_getaffinity"):
            raise OSError("the system does not say which processors a thread may run on")
        return os.sched_getaffinity(0)

    def here(self) -> int:
        """Return the processor that this thread runs on."""
        return int(_THIS_THREAD.read_text().rpartition(")")[2].split()[_PROCESSOR_FIELD])

    def put(self, processors: Set[int]) -> None:
        """Let all threads of this process run on these processors; a thread that they begin inherits that."""
        for task in _TASKS.iterdir():
            try:
                os.sched_setaffinity(int(task.name), processors)
            except ProcessLookupError:
                continue  # a thread that has just ended


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
            logger.info("the threads stay where the system puts them: %s", problem)
            self._wanted, self._stays = False, None

    def _bind(self) -> None:
        self._before = self._system.allowed()
        if len(self._before) > 1:
            self._stays = frozenset({self._system.here()})
            self._system.put(self._stays)

    def _free(self) -> None:
        is_ours = self._system.allowed() == self._stays
        self._stays = None
        if is_ours:  # else somebody has said where we are to run
            self._system.put(self._before)


one_processor = OneProcessor()
