"""`python -m tests.programs.fairness`: one customer floods the shop with threads, and others write
meanwhile. Prints how long these wait for their answers, with the flood and without it, and exits
with 1 if the flood delays them more than it may.

python -m tests.programs.fairness SQLite, 200 threads, no limits python -m tests.programs.fairness
--postgres --flood 100 python -m tests.programs.fairness --flood 30 --requests-per-minute 120 and
the model may be asked so often

A flood of one customer has one place of those in which mail is answered, so the others may wait a
little longer than alone: `--most-times` as long and `--grace` seconds. Under limits a minute the
flood takes turns of the others as well, and what is put off comes back with the sweep: then allow
more.
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
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.services import Model
from tests.databases import make_sqlite_template, postgres_copy, postgres_server, postgres_template
from tests.harness import Harness, open_shop, running, wait_until

CONCURRENCY = 8
OTHERS = 12
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

    def may_follow(self, alone: Waits, most_times: float, grace: float) -> bool:
        """Whether this is what may be waited beside a flood, when it is `alone` without one."""
        pairs = ((self.half, alone.half), (self.last, alone.last))
        return all(beside <= most_times * without + grace for beside, without in pairs)


def measure(harness: Harness, flood: int, pace: RateLimit) -> Waits:
    """Return how long the others wait for an answer while a flood is being answered."""
    limits = Limits(mails_of_sender_per_hour=10**6, mails_per_hour=10**6)
    limits = replace(limits, answers_to_sender_per_hour=10**6)
    model = SlowModel(harness.live.model)
    services.bind(replace(harness.live, limits=limits, model=model, pace=pace))
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
@click.option("--requests-per-minute", type=click.IntRange(1), help="OPENAI_REQUESTS_PER_MINUTE.")
@click.option("--tokens-per-minute", type=click.IntRange(1), help="OPENAI_TOKENS_PER_MINUTE.")
@click.option("--most-times", default=1.5, show_default=True, help="Allowed: as long as alone.")
@click.option("--grace", default=1.0, show_default=True, help="Allowed: so many seconds more.")
def fairness(
    flood: int,
    postgres: bool,
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    most_times: float,
    grace: float,
) -> None:
    """Measure what a flood of one customer costs the others; exit with 1 if it is too much."""
    click.echo(f"{CONCURRENCY} at a time, {OTHERS} others, {LATENCY_SECONDS} s for each call")
    pace = RateLimit(requests_per_minute, tokens_per_minute)
    play = _on_postgres if postgres else _on_sqlite
    alone = _tell(0, play(0, pace))
    beside = _tell(flood, play(flood, pace))
    if not beside.may_follow(alone, most_times, grace):
        click.echo(
            f"unfair: more than {most_times:g} times as long as alone and {grace:g} s", err=True
        )
        sys.exit(1)


def _tell(size: int, waits: Waits) -> Waits:
    click.echo(
        f"flood of {size:>5}: half of the others within {waits.half:5.1f} s,"
        f" the last within {waits.last:5.1f} s"
    )
    return waits


def _on_sqlite(size: int, pace: RateLimit) -> Waits:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{make_sqlite_template(Path(folder))}"
        return _in_shop(Path(folder), url, size, pace)


def _on_postgres(size: int, pace: RateLimit) -> Waits:
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server() as server,
        postgres_template(server) as template,
        postgres_copy(server, template) as url,
    ):
        return _in_shop(Path(folder), url, size, pace)


def _in_shop(folder: Path, url: str, size: int, pace: RateLimit) -> Waits:
    with open_shop(folder, url, {"CONVERSATION_CONCURRENCY": str(CONCURRENCY)}) as harness:
        return measure(harness, size, pace)


if __name__ == "__main__":
    fairness()
