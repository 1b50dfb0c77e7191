"""Measure, print the tables and check the answers.

`python -m tests.programs.bench [--only PART] [--json FILE]`
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from tests.databases import postgres_server, postgres_template
from tests.processes import ProcessFailed
from tests.programs.bench.apps import Stable
from tests.programs.bench.ground import HANDFUL, Ground, Sizes
from tests.programs.bench.providers import Providers
from tests.programs.bench.report import PARTS, measure


@click.command()
@click.option(
    "--only", "names", multiple=True, type=click.Choice(list(PARTS)), help="Measure this part only."
)
@click.option(
    "--mails", type=click.IntRange(min=1), help=f"How many at once.  [default: {Sizes().mails}]"
)
@click.option(
    "--handful", is_flag=True, help="So few of all else that it only shows that it works."
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write all figures here, too."
)
def bench(names: tuple[str, ...], handful: bool, json_file: Path | None, mails: int | None) -> None:
    """Measure what mail costs on PostgreSQL, beside the least that it could cost and what it should."""
    sizes = HANDFUL if handful else Sizes()
    sizes = replace(sizes, mails=mails or sizes.mails)
    try:
        with (
            postgres_server() as server,
            postgres_template(server) as template,
            open_ground(server, template, sizes) as ground,
        ):
            report = measure(ground, names or PARTS)
    except ProcessFailed as failed:
        raise click.ClickException(str(failed)) from failed
    click.echo(report.text())
    if handful:
        click.echo("with a handful of everything these figures mean nothing")
    if json_file is not None:
        json_file.write_text(json.dumps(report.data(), indent=2) + "\n", "utf-8")
    if report.wrong:
        sys.exit(1)


@contextmanager
def open_ground(server: str, template: str, sizes: Sizes) -> Iterator[Ground]:
    """Give what every measurement stands on; the providers run until the end of this."""
    with tempfile.TemporaryDirectory(prefix="mailagent-bench-") as path:
        providers = Providers(Path(path))
        try:
            stable = Stable(Path(path), providers)
            yield Ground(server, template, providers, stable, sizes, Path(path))
        finally:
            providers.stop()


if __name__ == "__main__":
    bench()
