"""A busy worker runs on one processor, and is free again when it rests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os, threading, time
from mailagent.workflows import affinity

affinity.CHECK_SECONDS = 0.05
affinity.start()
other = threading.Event()
threading.Thread(target=other.wait, daemon=True).start()

def count():
    return {len(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")}

def wait_for(wanted, work):
    ends_at = time.monotonic() + 20
    while count() != wanted and time.monotonic() < ends_at:
        work()
    print(count())

wait_for({1}, lambda: sum(range(10_000)))
wait_for({len(os.sched_getaffinity(os.getppid()))}, lambda: time.sleep(0.05))
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="there is one processor only",
)
def test_a_busy_process_is_bound_and_freed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n")[:2] == ["{1}", f"{{{len(os.sched_getaffinity(0))}}}"]
