"""Load a shop that a real Prometheus watches, and ask every query of the dashboard and of the rules:
`python -m tests.programs.watched`.
"""

from __future__ import annotations

import signal
import sys

import click

from tests.databases import postgres_server, postgres_template
from tests.processes import ProcessFailed
from tests.programs.bench.ground import HANDFUL, open_ground
from tests.programs.watched import page, prometheus
from tests.programs.watched.watching import watch


@click.command()
@click.option("--minutes", default=7.0, show_default=True, help="How long mail comes in.")
@click.option("--mails-per-second", default=2.5, show_default=True)
@click.option("--document", is_flag=True, help="Write the result into docs/loaded-run.md.")
def watched(minutes: float, mails_per_second: float, document: bool) -> None:
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
    if document:
        page.write(result)
    click.echo("\n".join(page.block_of(result)))
    if result.wrong:
        sys.exit(1)


if __name__ == "__main__":
    watched()
