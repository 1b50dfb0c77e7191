"""Keeps a busy worker on one processor, on Linux.

Python runs one thread of a process at a time. Spread over several processors, the threads spend a third of a
worker's time on handing Python's lock to each other (decision 9).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Set
from pathlib import Path

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
# Shares of one processor's time. A bound worker that gets less than half either rests or has a busy neighbour.
BUSY, AT_REST = 0.7, 0.5
_TASKS = Path("/proc/self/task")


def start() -> None:
    """Watch this process in a thread: bind it to one processor while it is busy."""
    if hasattr(os, "sched_setaffinity") and _TASKS.exists():
        threading.Thread(target=_watch, name="affinity", daemon=True).start()


def _watch() -> None:
    allowed = bound_to = os.sched_getaffinity(0)
    while len(allowed) > 1:
        share = _share_of_processor()
        if share > BUSY and bound_to == allowed:
            bound_to = {_current_processor()} & allowed or allowed
        elif share < AT_REST and bound_to != allowed:
            bound_to = allowed
        else:
            continue
        _bind(bound_to)


def _share_of_processor() -> float:
    began_at, used = time.monotonic(), time.process_time()
    time.sleep(CHECK_SECONDS)
    return (time.process_time() - used) / (time.monotonic() - began_at)


def _current_processor() -> int:
    fields = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
    return int(fields[36])  # field 39 of proc_pid_stat(5), counted after the name


def _bind(processors: Set[int]) -> None:
    """Bind all threads of this process to these processors. A thread that starts later inherits them."""
    for task in _TASKS.iterdir():
        with contextlib.suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(int(task.name), processors)
    logger.debug("event=worker_bound: its threads run on processors %s", sorted(processors))
