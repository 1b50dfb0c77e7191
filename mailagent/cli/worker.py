"""`flask worker`: run workflows until told to stop, then let those at work finish."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn

import click
import sqlalchemy as sa
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import explain
from mailagent.cli.waiting import hear_signals, wait_for_database
from mailagent.store.migration import SchemaProblem
from mailagent.telemetry import spans

if TYPE_CHECKING:  # pydantic loads with it
    from mailagent.settings import Settings


if TYPE_CHECKING:
    from mailagent.workflows.launch import Engine

DRAIN_SECONDS = 20


def engine_of(settings: Settings) -> Engine:
    """Return how the workflow engine runs under these settings."""
    from mailagent.workflows.launch import Engine  # here: loading all workflows takes long

    return Engine(
        database_url=settings.database_url,
        worker_id=settings.worker_id,
        conversation_concurrency=settings.conversation_concurrency,
        conductor_key=settings.conductor_key,
        conductor_url=settings.conductor_url,
        conductor_metadata_only=settings.conductor_metadata_only,
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
    from mailagent.workflows.launch import launch, stop

    settings: Settings = current_app.config["MAILAGENT"]
    if not settings.runs_workflows:
        raise click.ClickException(
            "MAILAGENT_ROLE is web: set it to worker (or all) to run workflows"
        )
    signals = hear_signals()
    _forget_beats(settings.worker_beat_file)
    if not _reach_database(signals):
        return
    if settings.otlp_endpoint:
        spans.start(settings.otlp_endpoint, settings.role)
    launch(engine_of(settings))
    click.echo("The worker runs. Stop it with SIGTERM or Ctrl-C.")
    signals.get()
    click.echo("Stopping; steps at work may finish. Again: stop at once.")
    stop(drain_seconds, hurry=lambda: not signals.empty())
    leave()


def _forget_beats(beat_file: Path | None) -> None:
    """Remove what a worker before us has touched: by its age the health check would end us, again and
    again, while we wait for the database."""
    if beat_file is not None:
        with contextlib.suppress(OSError):  # the first beat says what is wrong with it
            beat_file.unlink(missing_ok=True)


def _reach_database(signals: SimpleQueue[int]) -> bool:
    """Wait for the database; return False if one of the signals came first."""
    database = services.current().database
    try:
        return wait_for_database(database, lambda words: click.echo(words, err=True), signals)
    except SchemaProblem as problem:
        raise click.ClickException(str(problem)) from None
    except sa.exc.DBAPIError as problem:
        raise click.ClickException(explain(problem)) from None


def leave() -> NoReturn:
    """End this process now: Python itself would wait for each thread that hangs or sleeps in a run, and
    those runs go on elsewhere."""
    spans.stop()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
