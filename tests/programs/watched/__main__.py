"""Load a shop that a real Prometheus watches, and ask every query of the dashboard and of the rules:
`python -m tests.programs.watched`.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from tests.databases import postgres_server, postgres_template
from tests.processes import ProcessFailed
from tests.programs.bench.ground import HANDFUL, open_ground
from tests.programs.proof import write_results
from tests.programs.watched import page, prometheus
from tests.programs.watched.watching import watch


@click.command()
@click.option("--minutes", default=7.0, show_default=True, help="How long mail comes in.")
@click.option("--mails-per-second", default=2.5, show_default=True)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to this file, too.",
)
def watched(minutes: float, mails_per_second: float, json_file: Path | None) -> None:
    """Load a shop that Prometheus watches; exit with 1 if a figure is not what the rows say."""
    program = prometheus.find_program()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped then, too
    try:
        with (
            postgres_server() as server,
            postgres_template(server) as template,
            open_ground(server, template, HANDFUL) as ground,
        ):
            result = watch(ground, program, minutes, mails_per_second)
    except ProcessFailed as failed:
        raise click.ClickException(str(failed)) from failed
    lines = list(page.block_of(result))
    write_results(json_file, [{"lines": lines}])
    click.echo("\n".join(lines))
    if result.wrong:
        sys.exit(1)


if __name__ == "__main__":
    watched()
