"""Readings of what the measured programs have used so far, and the difference between two of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from tests.processes import Process

# A backend of PostgreSQL that goes idle keeps its latest counts to itself for up to ten seconds
# (PGSTAT_IDLE_INTERVAL in pgstat.c); nothing makes another session's backend tell them earlier.
SETTLE_SECONDS = 11.0


@dataclass(frozen=True, slots=True)
class Reading:
    at: float
    cpu_seconds: float
    transactions: int
    database_seconds: float


@dataclass(frozen=True, slots=True)
class Used:
    """What was used between two readings. `database_seconds`: CPU of PostgreSQL, its upkeep included."""

    seconds: float
    cpu_seconds: float
    transactions: float
    database_seconds: float

    def without(self, idle: Used) -> Used:
        """Return this without what as long a time of waiting uses."""
        share = self.seconds / idle.seconds
        return Used(
            self.seconds,
            self.cpu_seconds - idle.cpu_seconds * share,
            self.transactions - idle.transactions * share,
            self.database_seconds - idle.database_seconds * share,
        )


def between(before: Reading, after: Reading) -> Used:
    return Used(
        after.at - before.at,
        after.cpu_seconds - before.cpu_seconds,
        after.transactions - before.transactions,
        after.database_seconds - before.database_seconds,
    )


class Meter:
    """Reads the CPU time of programs and of PostgreSQL, and the transactions of one database.

    Asks by way of `server_url`, another database, so that asking is not counted.
    """

    def __init__(
        self,
        server_url: str,
        database_url: str,
        children: Sequence[Process],
        settle_seconds: float,
    ) -> None:
        self._server_url = server_url
        self._database = database_name(database_url)
        self._children = children
        self._settle_seconds = settle_seconds

    def read(self) -> Reading:
        """Wait until PostgreSQL's counts are whole, and read everything."""
        time.sleep(self._settle_seconds)
        for child in self._children:
            child.check()
        return Reading(
            time.monotonic(),
            sum(map(cpu_seconds, self._children)),
            count_transactions(self._server_url, self._database),
            database_seconds(self._server_url),
        )


def database_name(url: str) -> str:
    return sa.make_url(url).database or ""


def count_transactions(server_url: str, database: str) -> int:
    """Return how many transactions a database has seen, those that only read among them.

    A transaction that only read is mostly ended by a rollback: SQLAlchemy's way to give a connection
    back.
    """
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT")
    query = sa.text(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = :database"
    )
    with engine.connect() as connection:
        counted = connection.scalar(query, {"database": database})
    engine.dispose()
    return int(counted or 0)


def database_seconds(server_url: str) -> float:
    """Return the CPU time of all processes of a PostgreSQL on this machine so far; 0 for one elsewhere."""
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        backend = int(connection.scalar(sa.text("SELECT pg_backend_pid()")) or 0)
        seconds = cpu_seconds_of_children(backend, "postgres")
    engine.dispose()
    return seconds


# --- /proc ------------------------------------------------------------------------------------------

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: Process) -> float:
    """Return the CPU time of a process and its children so far, ended ones included."""
    return sum(_ticks(entry, process.pid) for entry in Path("/proc").iterdir()) / _TICKS


def _ticks(entry: Path, group: int) -> int:
    """Return the CPU ticks of a process if it belongs to `group`."""
    fields = _stat(entry)
    return sum(map(int, fields[11:15])) if fields and int(fields[2]) == group else 0


def _stat(entry: Path) -> list[str]:
    """Return the fields of a process after its name: state, parent, group, … (proc_pid_stat(5)); none
    when it has ended while we looked."""
    if not entry.name.isdigit():
        return []
    try:
        # The name in brackets may hold spaces and brackets itself; the fields begin after the last.
        return (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_seconds_of_children(one: int, name: str) -> float:
    """Return the CPU time of the parent of process `one` and of all its children, ended ones included; 0
    if there is no such process here, or it is not called `name`."""
    proc = Path("/proc")
    fields = _stat(proc / str(one))
    if not fields or (proc / str(one) / "comm").read_text("utf-8").strip() != name:
        return 0.0
    parent = fields[1]
    family = [each for each in map(_stat, proc.iterdir()) if each and each[1] == parent]
    return sum(sum(map(int, each[11:15])) for each in [*family, _stat(proc / parent)]) / _TICKS
