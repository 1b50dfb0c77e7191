"""Refunds that wait for a manager on one worker: what each holds, how soon a decision is paid, and how long
it takes until all wait again after SIGKILL."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from mailagent.store.database import Database, open_database
from tests.processes import Process
from tests.programs.bench.clients import approve
from tests.programs.bench.fill import fill_waiting
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured, render_lines
from tests.programs.bench.meter import Memory, read_memory

_KB = 1024
# The first ones make the worker load what it needs; they wait before memory is read for the first time.
_FIRST = 20
# For each refund, beside a fixed time: a slow machine must not be taken for a worker that hangs.
_PATIENCE_EACH_SECONDS = 0.3
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Waited:
    """One worker with all refunds waiting. `seconds`: until they did; `paid_seconds`: from a manager's
    click to the row that says paid, for each decision."""

    seconds: float
    memory: Memory
    paid_seconds: list[float]

    def paid(self) -> str:
        seconds = self.paid_seconds
        return f"{statistics.median(seconds):.2f} s in the median, {max(seconds):.2f} s at most"


@dataclass(frozen=True)
class _Watch:
    """Sees how many runs of a worker wait, and how many refunds are paid."""

    file: Path
    database: Database
    patience_seconds: float

    def wait_until(self, worker: Process, count: Callable[[Process], int], least: int) -> None:
        worker.wait_until(lambda: count(worker) >= least, self.patience_seconds)

    def count_waiting(self, worker: Process) -> int:
        try:
            seen: dict[str, int] = json.loads(self.file.read_text("utf-8"))
        except FileNotFoundError:
            return 0
        return seen["waiting"] if seen["pid"] == worker.pid else 0  # else of the one before

    def count_paid(self, _worker: Process) -> int:
        with self.database.snapshot() as connection:
            paid = sa.text("SELECT count(*) FROM refunds WHERE status = 'paid'")
            return int(connection.scalar(paid) or 0)


def measure(ground: Ground) -> Measured:
    count, decisions = ground.sizes.waiting, ground.sizes.decisions
    with ground.database() as url, ground.web(url, "web") as (_, webhook):
        database = open_database(url)
        patience = _PATIENCE_SECONDS + count * _PATIENCE_EACH_SECONDS
        watch = _Watch(ground.folder / "waiting.json", database, patience)
        sent = ground.providers.counts().mails
        with ground.worker(url, watch.file) as worker:
            fill_waiting(url, _FIRST)
            watch.wait_until(worker, watch.count_waiting, _FIRST)
            time.sleep(ground.sizes.idle_seconds)
            before = read_memory(worker)
            began = time.monotonic()
            fill_waiting(url, count)
            watch.wait_until(worker, watch.count_waiting, _FIRST + count)
            seconds = time.monotonic() - began
            links = ground.providers.list_links(sent)
            first = _decide(ground, watch, worker, seconds, webhook, links[:decisions])
            began = time.monotonic()
            worker.kill()
        with ground.worker(url, watch.file) as worker:
            watch.wait_until(worker, watch.count_waiting, _FIRST + count - decisions)
            seconds = time.monotonic() - began
            rest = links[decisions : 2 * decisions]
            again = _decide(ground, watch, worker, seconds, webhook, rest)
        database.close()
    return _measured(count, before, first, again)


def _decide(
    ground: Ground,
    watch: _Watch,
    worker: Process,
    seconds: float,
    webhook: str,
    links: list[str],
) -> Waited:
    time.sleep(ground.sizes.idle_seconds)
    memory = read_memory(worker)
    paid_seconds = []
    for link in links:
        paid = watch.count_paid(worker)
        pressed_at = approve(webhook, link)
        watch.wait_until(worker, watch.count_paid, paid + 1)
        paid_seconds.append(time.monotonic() - pressed_at)
    return Waited(seconds, memory, paid_seconds)


def _measured(count: int, before: Memory, first: Waited, again: Waited) -> Measured:
    held = [(each.memory.pss - before.pss) / _KB / count for each in (first, again)]
    threads = max(each.memory.threads for each in (first, again)) - before.threads
    slowest = max(first.paid_seconds + again.paid_seconds)
    table = {
        "refunds that wait on one worker": f"{_FIRST} and {count:,} more",
        "until all waited, their making and mails included": f"{first.seconds:.1f} s",
        "memory of each of these (PSS)": (f"{held[0]:.1f} KB; after the restart {held[1]:.1f} KB"),
        "threads of the worker": (
            f"{before.threads} with {_FIRST} of them; {first.memory.threads} with all of them;"
            f" {again.memory.threads} after the restart"
        ),
        "from SIGKILL until all wait again": f"{again.seconds:.1f} s",
        "from a click to paid": f"{first.paid()}; after the restart {again.paid()}",
    }
    aims = [
        Aim("memory of a waiting refund", max(held), 25, "KB"),
        # The engine's, which are no more with ten times as many: 64, and one for each conversation.
        Aim("threads for each waiting refund", threads / count, 0.02, ""),
        Aim("from SIGKILL until all wait again", again.seconds, 90, "s"),
        Aim("a decision is paid meanwhile, the slowest", slowest, 2, "s"),
    ]
    return Measured(render_lines(table.items()), aims)
