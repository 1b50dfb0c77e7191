"""The parts of the benchmark, by name: what measures each, and all that was measured put together."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import click
import sqlalchemy as sa

from tests.programs.bench import costs, growth, roles, slow_model, waiting
from tests.programs.bench.ground import Ground
from tests.programs.bench.told import Told
from tests.programs.run_record import this_run

PARTS: dict[str, Callable[[Ground], Told]] = {
    "costs": costs.measure,
    "roles": roles.measure,
    "slow-model": slow_model.measure_slow_model,
    "two-workers": slow_model.measure_pair,
    "waiting": waiting.measure,
    "growth": growth.measure,
}
_PACKAGES = ("dbos", "sqlalchemy", "psycopg", "flask", "gunicorn", "openai", "sendgrid")


@dataclass(frozen=True)
class Report:
    versions: dict[str, str]
    sizes: dict[str, Any]
    parts: dict[str, Told]
    commit: str

    @property
    def wrong(self) -> list[str]:
        return [f"{name}: {what}" for name, part in self.parts.items() for what in part.wrong]

    def text(self) -> str:
        head = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        parts = (f"== {name}\n\n{part.text()}" for name, part in self.parts.items())
        return "\n\n".join([head, *parts])

    def data(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {
            "commit": self.commit,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": self.versions,
            "sizes": self.sizes,
            "parts": {name: part.data() for name, part in self.parts.items()},
        }


def measure(ground: Ground, names: Collection[str]) -> Report:
    """Measure these parts, one after the other."""
    parts, commit = {}, this_run()["commit"]
    for name, part in PARTS.items():
        if name in names:
            click.echo(f"measuring {name} …", err=True)
            parts[name] = part(ground)
    return Report(_versions(ground), asdict(ground.sizes), parts, commit)


def _versions(ground: Ground) -> dict[str, str]:
    engine = sa.create_engine(ground.server_url)
    with engine.connect() as connection:
        server = str(connection.scalar(sa.text("SHOW server_version")))
    engine.dispose()
    return {
        "cores": f"{os.cpu_count()} of {_told_in('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_told_in('/proc/meminfo', 'MemTotal').split()[0]) // 2**20} GB",
        "Linux": platform.release().split("-")[0],
        "Python": platform.python_version(),
        "PostgreSQL": server,
        **{name: version(name) for name in _PACKAGES},
    }


def _told_in(path: str, name: str) -> str:
    """Return what a file of Linux's says of something, the first time that it does; "0" if it does not."""
    with open(path, encoding="utf-8") as lines:
        told = (line.partition(":") for line in lines)
        return next((value.strip() for key, _, value in told if key.strip() == name), "0")
