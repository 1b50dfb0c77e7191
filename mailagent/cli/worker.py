"""`flask worker`: run workflows until told to stop, then let those at work finish."""

from __future__ import annotations

import logging
import os
import signal
import sys
from queue import SimpleQueue
from typing import NoReturn

import click
import sqlalchemy as sa
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import explain
from mailagent.cli.waiting import wait_for_database
from mailagent.settings import Settings
from mailagent.store.migration import SchemaProblem
from mailagent.telemetry import spans
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
        beat_file=settings.worker_beat_file,
    )


@click.command("worker")
@with_appcontext
@click.option(
    "--drain-seconds",
    type=click.IntRange(0, 24 * 3600),
    default=DRAIN_SECONDS,
    show_default=True,
    help="How long to let steps at work finish.",
)
def worker(drain_seconds: int) -> None:
    """Run workflows in this process. SIGTERM or Ctrl-C stops it; unfinished runs go on elsewhere.

    A second one stops it at once.
    """
    settings: Settings = current_app.config["MAILAGENT"]
    if not settings.runs_workflows:
        raise click.ClickException(
            "MAILAGENT_ROLE is web: set it to worker (or all) to run workflows"
        )
    try:
        wait_for_database(services.current().database, lambda words: click.echo(words, err=True))
    except SchemaProblem as problem:
        raise click.ClickException(str(problem)) from None
    except sa.exc.DBAPIError as problem:
        raise click.ClickException(explain(problem)) from None
    # Not an Event: setting one is not safe in a handler that another signal may interrupt.
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: signals.put(received))
    if settings.otlp_endpoint:
        spans.start(settings.otlp_endpoint, settings.role)
    launch(engine_of(settings))
    click.echo("The worker runs. Stop it with SIGTERM or Ctrl-C.")
    signals.get()
    click.echo("Stopping; steps at work may finish. Again: stop at once.")
    stop(drain_seconds, hurry=lambda: not signals.empty())
    leave()


def leave() -> NoReturn:
    """End this process now: Python itself would wait for each thread that hangs or sleeps in a run, and
    those runs go on elsewhere."""
    spans.stop()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
