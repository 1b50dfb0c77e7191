"""`flask worker`: run workflows until a signal comes, then let the running steps finish."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NoReturn

import click
import sqlalchemy as sa
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.cli.printing import explain
from mailagent.store.database import Database
from mailagent.store.errors import is_outage
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.telemetry import spans

if TYPE_CHECKING:  # slow to import: pydantic, all workflows
    from mailagent.settings import Settings
    from mailagent.workflows.launch import EngineConfig

DRAIN_SECONDS = 20
RETRY_SECONDS = 2.0
TRIES_PER_MESSAGE = 30


def engine_of(settings: Settings) -> EngineConfig:
    """Return the configuration of the workflow engine."""
    from mailagent.backtest.shadow import EVERY_FIVE_MINUTES, shadow
    from mailagent.workflows.launch import EngineConfig

    return EngineConfig(
        database_url=settings.database_url,
        worker_id=settings.worker_id,
        conversation_concurrency=settings.conversation_concurrency,
        conductor_key=settings.conductor_key,
        conductor_url=settings.conductor_url,
        conductor_metadata_only=settings.conductor_metadata_only,
        beat_file=settings.worker_beat_file,
        shadow=(shadow, EVERY_FIVE_MINUTES) if settings.shadow_share else None,
    )


def start(settings: Settings) -> None:
    """Start tracing, and workflows if the role runs them."""
    if settings.otlp_endpoint:
        spans.start(settings.otlp_endpoint, settings.role)
    if settings.runs_workflows:
        from mailagent.workflows import affinity
        from mailagent.workflows.launch import launch

        affinity.start()
        launch(engine_of(settings))


@click.command("worker")
@with_appcontext
@click.option(
    "--drain-seconds",
    type=click.IntRange(0, 24 * 3600),
    default=DRAIN_SECONDS,
    show_default=True,
    help="How long running steps may take to finish.",
)
def worker(drain_seconds: int) -> None:
    """Run workflows in this process. SIGTERM or Ctrl-C stops it; other workers take over unfinished runs.

    A second signal stops it at once.
    """
    from mailagent.workflows.launch import stop

    settings: Settings = current_app.config["MAILAGENT"]
    if not settings.runs_workflows:
        raise click.ClickException(
            "MAILAGENT_ROLE is web: set it to worker (or all) to run workflows"
        )
    signals = catch_signals()
    _remove_beat_file(settings.worker_beat_file)
    if not wait_for_database(services.current().database, signals):
        return
    start(settings)
    click.echo("The worker runs. Stop it with SIGTERM or Ctrl-C.")
    signals.get()
    click.echo("Stopping: running steps may finish. A second signal stops at once.")
    stop(drain_seconds, hurry=lambda: not signals.empty())
    leave()


def _remove_beat_file(beat_file: Path | None) -> None:
    """Remove the heartbeat file of an earlier worker. While we wait for the database, the health check would
    judge us by its age and restart us."""
    if beat_file is not None:
        with contextlib.suppress(OSError):  # the first heartbeat reports the error
            beat_file.unlink(missing_ok=True)


def catch_signals() -> SimpleQueue[int]:
    """Return a queue that receives SIGTERM and SIGINT from now on, in place of their default actions.

    Call this before anything slow: the first process of a container gets no signal without a handler.
    """
    # SimpleQueue.put is reentrant, so a signal handler may call it. Event.set is not.
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: signals.put(received))
    return signals


def wait_for_database(database: Database, signals: SimpleQueue[int]) -> bool:
    """Return True once the database is reached and migrated; False if a signal comes first.

    Retries for as long as the server is away. Raises ClickException for what does not pass by itself, such as a
    missing SQLite file or an old schema.
    """
    tries = 0
    while signals.empty():
        try:
            check_schema(database)
            return True
        except SchemaProblem as problem:
            raise click.ClickException(str(problem)) from None
        except sa.exc.DBAPIError as problem:
            if database.engine.dialect.name == "sqlite" or not is_outage(problem):
                raise click.ClickException(explain(problem)) from None
            if tries % TRIES_PER_MESSAGE == 0:
                click.echo(f"{explain(problem)} Waiting for it.", err=True)
        tries += 1
        with contextlib.suppress(Empty):
            signals.get(timeout=RETRY_SECONDS)
            break
    click.echo("Stopped before the database was reached.", err=True)
    return False


def leave() -> NoReturn:
    """End the process now. A normal exit would wait for threads that sleep in a workflow; other workers take
    over those runs."""
    spans.stop()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
