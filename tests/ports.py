"""Ports for programs that begin a while after their port was chosen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TextIO

from mailagent.demo.show import PortBusy, find_port

# Below those that Linux gives out by itself, to servers that ask for any and to each connection that is made
# (ip_local_port_range): such a port would be free now, and taken when the program begins.
LOWEST = 20_000
# So many ranges of so many ports.
RANGES, SIZE = 60, 200

_locks: list[TextIO] = []  # the operating system frees them when the process ends


def choose_port() -> int:
    """Return a free port of 127.0.0.1. No other process gets it from here, and this one not before it has had
    its other ports."""
    while True:
        with contextlib.suppress(PortBusy):
            return find_port(next(_ports_of(os.getpid())))


@cache
def _ports_of(_process_id: int) -> Iterator[int]:
    """Lock a range of ports for this process: pytest's workers and programs run side by side."""
    folder = Path(tempfile.gettempdir(), f"mailagent-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    for number in range(RANGES):
        lock = (folder / str(number)).open("w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _locks.append(lock)
        first = LOWEST + number * SIZE
        return cycle(range(first, first + SIZE))
    raise RuntimeError(f"{RANGES} processes have all ranges of ports: stop some, see {folder}")
