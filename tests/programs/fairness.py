"""`python -m tests.programs.fairness`: one customer floods the shop with threads, and others write
meanwhile. Prints how long these wait for their answers, with the flood and without it, and exits
with 1 if the flood delays them more than it may.

A flood of one customer has one place of those in which mail is answered, so the others may wait a
little longer than alone.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from mailagent import services
from mailagent.domain.mail.conversation import Limits
from mailagent.services import Model
from tests.databases import fresh_databases
from tests.harness import Harness, open_shop, running, wait_until

CONCURRENCY = 8
OTHERS = 12
MOST_TIMES, GRACE_SECONDS = 1.5, 1.0
LATENCY_SECONDS = 0.5


class SlowModel:
    """The real client, and a model that thinks for a while."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def ask(self, *arguments: Any) -> dict[str, Any]:
        time.sleep(LATENCY_SECONDS)
        return self._model.ask(*arguments)


@dataclass(frozen=True)
class Waits:
    """How long the others waited: half of them at most `half` seconds, all of them at most `last`."""

    half: float
    last: float

    def may_follow(self, alone: Waits) -> bool:
        """Whether this is what may be waited beside a flood, when it is `alone` without one."""
        pairs = ((self.half, alone.half), (self.last, alone.last))
        return all(beside <= MOST_TIMES * without + GRACE_SECONDS for beside, without in pairs)


def measure(harness: Harness, flood: int) -> Waits:
    """Return how long the others wait for an answer while a flood is being answered."""
    limits = Limits(mails_of_sender_per_hour=10**6, mails_per_hour=10**6)
    limits = replace(limits, answers_to_sender_per_hour=10**6)
    model = SlowModel(harness.live.model)
    services.bind(replace(harness.live, limits=limits, model=model))
    for number in range(flood):
        harness.write("Where is my order?", subject=f"thread {number}")
    others = [f"other{number}@example.org" for number in range(OTHERS)]
    with running(harness):
        begun = time.monotonic()
        for address in others:
            harness.write("Where is mine?", from_address=address, from_name="O")
        waited: dict[str, float] = {}
        wait_until(lambda: _note(harness, others, begun, waited), 300, "the others' answers")
    return Waits(statistics.median(waited.values()), max(waited.values()))


def _note(harness: Harness, others: Sequence[str], begun: float, waited: dict[str, float]) -> bool:
    for address in others:
        if address not in waited and harness.mails_to(address):
            waited[address] = time.monotonic() - begun
    return len(waited) == len(others)


@click.command()
@click.option("--flood", default=200, show_default=True, help="Threads of one customer.")
@click.option("--postgres", is_flag=True, help="On PostgreSQL instead of SQLite.")
def fairness(flood: int, postgres: bool) -> None:
    """Measure what a flood of one customer costs the others; exit with 1 if it is too much."""
    click.echo(f"{CONCURRENCY} at a time, {OTHERS} others, {LATENCY_SECONDS} s for each call")
    kind = "postgresql" if postgres else "sqlite"
    with fresh_databases(kind) as fresh:
        alone, beside = (_tell(size, _play(fresh(), size)) for size in (0, flood))
    if not beside.may_follow(alone):
        sys.exit(f"unfair: more than {MOST_TIMES:g} times as long as alone and {GRACE_SECONDS:g} s")


def _tell(size: int, waits: Waits) -> Waits:
    click.echo(
        f"flood of {size:>5}: half of the others within {waits.half:5.1f} s,"
        f" the last within {waits.last:5.1f} s"
    )
    return waits


def _play(url: str, size: int) -> Waits:
    settings = {"CONVERSATION_CONCURRENCY": str(CONCURRENCY)}
    with tempfile.TemporaryDirectory() as folder, open_shop(Path(folder), url, settings) as harness:
        return measure(harness, size)


if __name__ == "__main__":
    fairness()
