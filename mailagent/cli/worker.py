"""`flask worker`: run workflows until told to stop, then let those at work finish."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import click
import sqlalchemy as sa
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import explain
from mailagent.settings import Settings
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.workflows.launch import Engine, launch, stop

DRAIN_SECONDS = 20


def engine_of(settings: Settings) -> Engine:
    """Return how the workflow engine runs under these settings."""
    return Engine(
        database_url=settings.database_url,
        worker_id=settings.worker_id,
        conversation_concurrency=settings.conversation_concurrency,
        conductor_key=settings.conductor_key,
        conductor_url=settings.conductor_url,
    )


@click.command("worker")
@with_appcontext
@click.option(
    "--drain-seconds",
    type=click.IntRange(0, 24 * 3600),
    default=DRAIN_SECONDS,
    show_default=True,
    help="How long to let runs finish.",
)
def worker(drain_seconds: int) -> None:
    """Run workflows in this process. SIGTERM or Ctrl-C stops it; unfinished runs go on elsewhere."""
    settings: Settings = current_app.config["MAILAGENT"]
    if not settings.runs_workflows:
        raise click.ClickException(
            "MAILAGENT_ROLE is web: set it to worker (or all) to run workflows"
        )
    try:
        check_schema(services.current().database)
    except SchemaProblem as problem:
        raise click.ClickException(str(problem)) from None
    except sa.exc.DBAPIError as problem:
        raise click.ClickException(explain(problem)) from None
    stopping = threading.Event()

    def stop_soon(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop_soon)
    signal.signal(signal.SIGINT, stop_soon)
    launch(engine_of(settings))
    click.echo("The worker runs. Stop it with SIGTERM or Ctrl-C.")
    stopping.wait()
    click.echo("Stopping; runs at work may finish.")
    stop(drain_seconds)
