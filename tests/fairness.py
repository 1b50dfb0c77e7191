"""`python -m tests.fairness`: one customer floods the shop with threads, and others write meanwhile. Prints
how long these wait for their answers, with the flood and without it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mailagent import services
from mailagent.domain.conversation import Limits
from mailagent.services import Model
from tests.databases import make_sqlite_template, postgres_copy, postgres_server, postgres_template
from tests.stage import Stage, open_shop, running, wait_until

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


def measure(stage: Stage, flood: int) -> list[float]:
    """Return the seconds that each of the others waits for an answer while a flood is being answered."""
    limits = Limits(mails_of_sender_per_hour=10**6, mails_per_hour=10**6)
    limits = replace(limits, answers_to_sender_per_hour=10**6)
    services.bind(replace(stage.live, limits=limits, model=SlowModel(stage.live.model)))
    for number in range(flood):
        stage.write("Where is my order?", subject=f"thread {number}")
    others = [f"other{number}@example.org" for number in range(OTHERS)]
    with running(stage):
        begun = time.monotonic()
        for address in others:
            stage.write("Where is mine?", from_address=address, from_name="O")
        waited: dict[str, float] = {}
        wait_until(lambda: _note(stage, others, begun, waited), 300, "the others' answers")
    return list(waited.values())


def _note(stage: Stage, others: Sequence[str], begun: float, waited: dict[str, float]) -> bool:
    for address in others:
        if address not in waited and stage.mails_to(address):
            waited[address] = time.monotonic() - begun
    return len(waited) == len(others)


@click.command()
@click.option("--flood", default=200, show_default=True, help="Threads of one customer.")
@click.option("--postgres", is_flag=True, help="On PostgreSQL instead of SQLite.")
def fairness(flood: int, postgres: bool) -> None:
    """Measure what a flood of one customer costs the others."""
    click.echo(f"{CONCURRENCY} at a time, {OTHERS} others, {LATENCY_SECONDS} s for each call")
    for size in (0, flood):
        waited = _on_postgres(size) if postgres else _on_sqlite(size)
        click.echo(
            f"flood of {size:>5}: half of the others within {statistics.median(waited):5.1f} s,"
            f" the last within {max(waited):5.1f} s"
        )


def _on_sqlite(size: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{make_sqlite_template(Path(folder))}"
        return _in_shop(Path(folder), url, size)


def _on_postgres(size: int) -> list[float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server() as server,
        postgres_template(server) as template,
        postgres_copy(server, template) as url,
    ):
        return _in_shop(Path(folder), url, size)


def _in_shop(folder: Path, url: str, size: int) -> list[float]:
    with open_shop(folder, url, {"CONVERSATION_CONCURRENCY": str(CONCURRENCY)}) as stage:
        return measure(stage, size)


if __name__ == "__main__":
    fairness()
