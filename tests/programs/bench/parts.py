"""The parts of the benchmark by name."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import click
import sqlalchemy as sa

from tests.programs.bench import costs, growth, order_source, roles, slow_model, waiting
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured
from tests.programs.proof import Rows

PARTS: dict[str, Callable[[Ground], Measured]] = {
    "costs": costs.measure,
    "roles": roles.measure,
    "slow-model": slow_model.measure_slow_model,
    "two-workers": slow_model.measure_pair,
    "waiting": waiting.measure,
    "growth": growth.measure,
    "order-source": order_source.measure,
}
_PACKAGES = ("dbos", "sqlalchemy", "psycopg", "flask", "gunicorn", "openai", "sendgrid")


def measure(ground: Ground, names: Collection[str]) -> Rows:
    """Measure these parts, one after the other; return all as plain JSON data."""
    rows = []
    for name, part in PARTS.items():
        if name in names:
            click.echo(f"measuring {name} …", err=True)
            rows.append({"name": name, "versions": _versions(ground), **asdict(part(ground))})
    return rows


def list_wrong(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"{row['name']}: {it}" for row in rows for it in row["wrong"]]


def table(rows: Rows) -> str:
    """Return the block of each part as Markdown."""
    return "\n\n".join(f"```\n{block_of(row)}\n```" for row in rows)


def block_of(row: Mapping[str, Any]) -> str:
    """Return a part as people read it: where it was measured, its table, its aims."""
    versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
    aims = [Aim(**aim).line() for aim in row["aims"]]
    lines = "\n".join([versions, "", row["table"], "", *aims]).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _versions(ground: Ground) -> dict[str, str]:
    engine = sa.create_engine(ground.server_url)
    with engine.connect() as connection:
        server = str(connection.scalar(sa.text("SHOW server_version")))
    engine.dispose()
    return {
        "cores": f"{os.cpu_count()} of {_line_of('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_line_of('/proc/meminfo', 'MemTotal').split()[0]) // 2**20} GB",
        "Linux": platform.release().split("-")[0],
        "Python": platform.python_version(),
        "PostgreSQL": server,
        **{name: version(name) for name in _PACKAGES},
    }


def _line_of(path: str, name: str) -> str:
    """Return the first value that a file of /proc has for a name; "0" if it has none."""
    with open(path, encoding="utf-8") as lines:
        pairs = (line.partition(":") for line in lines)
        return next((value.strip() for key, _, value in pairs if key.strip() == name), "0")
