"""`python -m tests.bench [--mails N] [--json FILE]`: measures, prints the table, checks the answers."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tests.bench.apps import Stable
from tests.bench.child import ChildFailed
from tests.bench.ground import Ground
from tests.bench.meter import SETTLE_SECONDS
from tests.bench.providers import Providers
from tests.bench.report import measure
from tests.databases import postgres_server, postgres_template

# With fewer mails the figures mean nothing, so it does not wait for them to be whole.
FEWEST_MAILS = 20


@click.command()
@click.option(
    "--mails", default=200, show_default=True, type=click.IntRange(min=1), help="How many at once."
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write all figures here, too."
)
def bench(mails: int, json_file: Path | None) -> None:
    """Measure what one answered mail costs on PostgreSQL, beside the least that it could cost."""
    try:
        with _ground(mails) as ground:
            report = measure(ground)
    except ChildFailed as failed:
        raise click.ClickException(str(failed)) from failed
    click.echo(report.text())
    if mails < FEWEST_MAILS:
        click.echo(f"with fewer than {FEWEST_MAILS} mails these figures mean nothing")
    if json_file is not None:
        json_file.write_text(json.dumps(report.data(), indent=2) + "\n", "utf-8")
    if report.answered != report.received:
        sys.exit(1)


@contextmanager
def _ground(mails: int) -> Iterator[Ground]:
    with (
        tempfile.TemporaryDirectory(prefix="mailagent-bench-") as path,
        postgres_server() as server,
        postgres_template(server) as template,
    ):
        providers = Providers(Path(path))
        settle_seconds = SETTLE_SECONDS if mails >= FEWEST_MAILS else 0.1
        try:
            stable = Stable(Path(path), providers)
            yield Ground(server, template, providers, stable, mails, settle_seconds)
        finally:
            providers.stop()


if __name__ == "__main__":
    bench()
