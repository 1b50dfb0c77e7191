"""What the processes of a program hold in memory, and how many threads they have. Linux only (/proc)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.processes import Process

MB = 1024 * 1024
_KB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes, all processes of a program together.

    `pss`: each shared page in equal parts with whoever shares it: what the program costs the machine.
    `rss`: shared pages counted once for each process; `largest_rss`: of the process that holds most.
    `peak_rss`: the most that each process ever held.
    """

    pss: int
    rss: int
    largest_rss: int
    peak_rss: int
    threads: int
    processes: int


def read_memory(child: Process) -> Memory:
    """Read what a program holds now (proc_pid_smaps(5), proc_pid_status(5))."""
    found = [(_sizes(entry, "smaps_rollup"), _sizes(entry, "status")) for entry in _group(child)]
    return Memory(
        pss=sum(rollup.get("Pss", 0) for rollup, _ in found),
        rss=sum(rollup.get("Rss", 0) for rollup, _ in found),
        largest_rss=max((rollup.get("Rss", 0) for rollup, _ in found), default=0),
        peak_rss=sum(status.get("VmHWM", 0) for _, status in found),
        threads=sum(status.get("Threads", 0) for _, status in found),
        processes=len(found),
    )


def _group(child: Process) -> Iterator[Path]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) == child.pid:
                yield entry
        except ProcessLookupError:
            continue  # it ended while we looked


def _sizes(entry: Path, file: str) -> dict[str, int]:
    """Return the numbers of a file by their names; those in kB as bytes."""
    try:
        lines = (entry / file).read_text("utf-8", "replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}  # it ended while we looked
    sizes = {}
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            sizes[words[0].rstrip(":")] = int(words[1]) * (_KB if words[-1] == "kB" else 1)
    return sizes
