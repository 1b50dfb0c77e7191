"""The parts that run by themselves in a process of their own: the clients, and the floor of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.processes import run_script
from tests.programs.bench.ground import Ground
from tests.programs.bench.meter import count_transactions, database_name, database_seconds
from tests.programs.bench.table import Figures, Row


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


def measure_clients(ground: Ground) -> list[Row]:
    """Measure the clients of both providers as one question about an order uses them."""
    job = {
        "openai_url": ground.providers.openai_url,
        "sendgrid_url": ground.providers.sendgrid_url,
        "count": ground.mails,
    }
    done = run_script("tests.programs.bench.clients", job)
    return [
        Row(name, _figures(done[part]), _figures(done[f"{part}_floor"]))
        for name, part in (("  model client", "model"), ("  mail client", "mail"))
    ]


def _figures(measured: dict[str, float]) -> Figures:
    return Figures(measured["cpu_ms"], wall_ms=measured["wall_ms"])
