"""The parts of the benchmark by name, and their place in docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import click
import sqlalchemy as sa

from mailagent.app import ROOT
from tests.programs.bench import costs, growth, roles, slow_model, waiting
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured
from tests.programs.proof import this_run, with_part

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PARTS: dict[str, Callable[[Ground], Measured]] = {
    "costs": costs.measure,
    "roles": roles.measure,
    "slow-model": slow_model.measure_slow_model,
    "two-workers": slow_model.measure_pair,
    "waiting": waiting.measure,
    "growth": growth.measure,
}
_PACKAGES = ("dbos", "sqlalchemy", "psycopg", "flask", "gunicorn", "openai", "sendgrid")


def measure(ground: Ground, names: Collection[str]) -> dict[str, Any]:
    """Measure these parts, one after the other; return all as plain JSON data."""
    run, parts = this_run(), {}
    for name, part in PARTS.items():
        if name in names:
            click.echo(f"measuring {name} …", err=True)
            parts[name] = asdict(part(ground))
    return {**run, "versions": _versions(ground), "parts": parts}


def list_wrong(measured: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {it}" for name, part in measured["parts"].items() for it in part["wrong"]]


def fill_in(text: str, measured: Mapping[str, Any]) -> str:
    """Return the document with these figures in its parts. Raises ValueError if it has no such part."""
    for name, part in measured["parts"].items():
        text = with_part(text, name, f"```\n{block_of(measured, part)}\n```")
    return text


def block_of(measured: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    """Return a part as people read it: when and where it was measured, its table, its aims."""
    versions = ", ".join(f"{name} {number}" for name, number in measured["versions"].items())
    head = f"{measured['date']}, commit {measured['commit']}; {versions}"
    aims = [Aim(**aim).line() for aim in part["aims"]]
    lines = "\n".join([head, "", part["table"], "", *aims]).splitlines()
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
