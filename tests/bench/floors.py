"""The parts that run by themselves in a process of their own: the clients, and the floor of a run."""

from __future__ import annotations

from tests.bench.child import base_environment, run_script
from tests.bench.ground import Ground
from tests.bench.meter import count_transactions, database_name
from tests.bench.table import Figures, Row


def measure_bare_steps(ground: Ground, steps: tuple[int, ...]) -> Figures:
    """Measure runs of so many steps that do nothing."""
    job = {"steps": steps, "alone": ground.alone}
    with ground.database() as url:
        database = database_name(url)
        counted = [count_transactions(ground.server_url, database)]
        done = {}
        for mails in (0, ground.mails):  # the first only tells what starting and warming up takes
            done = run_script(
                "tests.bench.floor_steps",
                {**job, "database_url": url, "mails": mails},
                base_environment(),
            )
            counted.append(count_transactions(ground.server_url, database))
    first, second = counted[1] - counted[0], counted[2] - counted[1]
    return Figures(
        done["cpu_seconds"] * 1000 / ground.mails,
        (second - first) / ground.mails,
        done["wall_ms"],
        ground.mails / done["seconds"],
    )


def measure_clients(ground: Ground) -> list[Row]:
    """Measure the clients of both providers as one question about an order uses them."""
    job = {
        "openai_url": ground.providers.openai_url,
        "sendgrid_url": ground.providers.sendgrid_url,
        "count": ground.mails,
    }
    done = run_script("tests.bench.clients", job, base_environment())
    return [
        Row(name, _figures(done[part]), _figures(done[f"{part}_floor"]))
        for name, part in (("  model client", "model"), ("  mail client", "mail"))
    ]


def _figures(measured: dict[str, float]) -> Figures:
    return Figures(measured["cpu_ms"], wall_ms=measured["wall_ms"])
