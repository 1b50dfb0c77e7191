"""The floor of a run: as many steps that do nothing, in a process of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.processes import run_script
from tests.programs.bench.ground import Ground
from tests.programs.bench.meter import count_transactions, database_name, database_seconds
from tests.programs.bench.table import Figures


def measure_bare_steps(ground: Ground, flows: Sequence[tuple[int, ...]]) -> list[Figures]:
    """Measure, for each flow, runs of so many steps that do nothing."""
    with ground.database() as url:
        started = _run_steps(ground, url, (), 0, 0)  # only tells what starting takes
        ran = [_run_steps(ground, url, each, ground.alone, ground.mails) for each in flows]
    return [_per_mail(ground, started, each) for each in ran]


@dataclass(frozen=True, slots=True)
class _Steps:
    done: dict[str, float]
    transactions: int
    database_seconds: float


def _run_steps(ground: Ground, url: str, steps: tuple[int, ...], alone: int, mails: int) -> _Steps:
    database = database_name(url)
    transactions = count_transactions(ground.server_url, database)
    seconds = database_seconds(ground.server_url)
    job = {"steps": steps, "alone": alone, "database_url": url, "mails": mails}
    done = run_script("tests.programs.bench.floor_steps", job)
    return _Steps(
        done,
        count_transactions(ground.server_url, database) - transactions,
        database_seconds(ground.server_url) - seconds,
    )


def _per_mail(ground: Ground, started: _Steps, ran: _Steps) -> Figures:
    all_mails = ground.alone + ground.mails
    return Figures(
        cpu_ms=ran.done["cpu_seconds"] * 1000 / ground.mails,
        database_ms=(ran.database_seconds - started.database_seconds) * 1000 / all_mails,
        transactions=(ran.transactions - started.transactions) / all_mails,
        wall_ms=ran.done["wall_ms"],
        per_second=ground.mails / ran.done["seconds"],
    )
