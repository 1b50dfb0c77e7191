"""CPU, memory and transactions that programs and PostgreSQL use. Linux only: it reads /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from tests.processes import Process

# A backend of PostgreSQL that goes idle keeps its latest counts to itself for up to ten seconds
# (PGSTAT_IDLE_INTERVAL in pgstat.c); another session cannot make it tell them earlier.
SETTLE_SECONDS = 11.0
MB = 1024 * 1024
_KB = 1024
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used so far, or between two readings. `database_seconds`: CPU of PostgreSQL."""

    seconds: float
    cpu_seconds: float
    transactions: float
    database_seconds: float

    def minus(self, other: Usage, times: float = 1.0) -> Usage:
        return Usage(
            self.seconds - other.seconds * times,
            self.cpu_seconds - other.cpu_seconds * times,
            self.transactions - other.transactions * times,
            self.database_seconds - other.database_seconds * times,
        )

    def without(self, idle: Usage) -> Usage:
        """Return this without what waiting uses in as long a time."""
        return replace(self.minus(idle, self.seconds / idle.seconds), seconds=self.seconds)


def read_usage(server_url: str, database_url: str, children: Sequence[Process]) -> Usage:
    """Return what these programs, PostgreSQL and one of its databases have used so far.

    Asks by way of `server_url`, another database, so that asking is not counted.
    """
    for child in children:
        child.check()
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT")
    # A transaction that only read mostly ends by a rollback: SQLAlchemy gives connections back that way.
    counted = sa.text(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = :it"
    )
    with engine.connect() as connection:
        transactions = connection.scalar(counted, {"it": sa.make_url(database_url).database})
        backend = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        database_seconds = _cpu_seconds_of_postgres(int(backend or 0))
    engine.dispose()
    cpu = sum(map(cpu_seconds, children))
    return Usage(time.monotonic(), cpu, float(transactions or 0), database_seconds)


def cpu_seconds(process: Process) -> float:
    """Return the CPU time of a process and its children so far, ended ones included."""
    return sum(_ticks(_stat(entry)) for entry in _group(process)) / _TICKS


def _cpu_seconds_of_postgres(backend: int) -> float:
    """Return the CPU time of a server's processes so far, ended ones included; 0 for a server elsewhere."""
    fields = _stat(_PROC / str(backend))
    if not fields or (_PROC / str(backend) / "comm").read_text("utf-8").strip() != "postgres":
        return 0.0
    parent = fields[1]
    family = [each for each in map(_stat, _PROC.iterdir()) if each and each[1] == parent]
    return sum(map(_ticks, [*family, _stat(_PROC / parent)])) / _TICKS


def _ticks(fields: Sequence[str]) -> int:
    return sum(map(int, fields[11:15]))


def _stat(entry: Path) -> list[str]:
    """Return the fields of a process after its name: state, parent, … (proc_pid_stat(5)); none if it ended."""
    if not entry.name.isdigit():
        return []
    try:
        # The name in brackets may hold spaces and brackets itself; the fields begin after the last.
        return (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _group(child: Process) -> Iterator[Path]:
    for entry in _PROC.iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == child.pid:
                yield entry
        except ProcessLookupError:
            continue  # it ended while we looked


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes, all processes of a program together.

    `pss`: each shared page is divided among the processes that share it: what the program costs the machine.
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
    found = [(_sizes(entry / "smaps_rollup"), _sizes(entry / "status")) for entry in _group(child)]
    return Memory(
        pss=sum(rollup.get("Pss", 0) for rollup, _ in found),
        rss=sum(rollup.get("Rss", 0) for rollup, _ in found),
        largest_rss=max((rollup.get("Rss", 0) for rollup, _ in found), default=0),
        peak_rss=sum(status.get("VmHWM", 0) for _, status in found),
        threads=sum(status.get("Threads", 0) for _, status in found),
        processes=len(found),
    )


def _sizes(file: Path) -> dict[str, int]:
    """Return the numbers of a file by their names; those in kB as bytes."""
    try:
        lines = [line.split() for line in file.read_text("utf-8", "replace").splitlines()]
    except (FileNotFoundError, ProcessLookupError):
        return {}  # it ended while we looked
    numbers = [words for words in lines if len(words) >= 2 and words[1].isdigit()]
    return {
        words[0].rstrip(":"): int(words[1]) * (_KB if words[-1] == "kB" else 1) for words in numbers
    }
