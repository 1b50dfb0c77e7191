"""`python -m tests.programs.watched [--minutes N] [--document]`: loads a shop that a real Prometheus
watches, asks every query of the dashboard and of the rules; exits with 1 if a figure is not what
the rows say.
"""

from __future__ import annotations

import signal
import sys

import click

from tests.databases import postgres_server, postgres_template
from tests.processes import ProcessFailed
from tests.programs.bench.__main__ import open_ground
from tests.programs.bench.ground import HANDFUL
from tests.programs.watched import page, prometheus
from tests.programs.watched.results import Result
from tests.programs.watched.watching import watch


@click.command()
@click.option("--minutes", default=7.0, show_default=True, help="How long mail comes in.")
@click.option("--mails-per-second", default=2.5, show_default=True)
@click.option("--document", is_flag=True, help="Put the result into docs/loaded-run.md.")
def watched(minutes: float, mails_per_second: float, document: bool) -> None:
    """Load a shop that Prometheus watches, and check what is seen of it."""
    result = _run(minutes, mails_per_second)
    if document:
        page.write(result)
    _tell(result)
    if result.wrong:
        sys.exit(1)


def _run(minutes: float, mails_per_second: float) -> Result:
    program = prometheus.find_program()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped then, too
    try:
        with (
            postgres_server() as server,
            postgres_template(server) as template,
            open_ground(server, template, HANDFUL) as ground,
        ):
            return watch(ground, program, minutes, mails_per_second)
    except ProcessFailed as failed:
        raise click.ClickException(str(failed)) from failed


def _tell(result: Result) -> None:
    print(f"{result.load['mails']} mails, {result.load['decided']} decisions")
    for shown in result.panels:
        print(f"{len(shown.lines):3} series  {shown.title}: {shown.query}")
    for each in result.compared:
        print(f"{'differs' if each.wrong else '   same'}  {each.query}: {each.told}")
    for alert in result.alerts:
        if alert.was:
            print(
                f"{alert.name} was {' and '.join(alert.was)} ({alert.expected or 'not expected'})"
            )
    for line in result.wrong:
        print(f"wrong: {line}")


if __name__ == "__main__":
    watched()
