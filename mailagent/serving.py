"""gunicorn's configuration: `gunicorn -c python:mailagent.serving wsgi:app`.

One process with threads. In the role `all` it also runs the workflows; they are started after the
fork, because neither threads nor database connections survive one.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

# The address is gunicorn's own: 127.0.0.1:8000, 0.0.0.0:$PORT where PORT is set, or --bind.
workers = 1
worker_class = "gthread"
threads = 16
timeout = 60
graceful_timeout = 25
control_socket_disable = True  # it would be made in the home directory, one for all apps
# Inbound mail comes in one body of up to 30 MB, sometimes chunked; nothing here limits it.
limit_request_line = 8190

DRAIN_SECONDS = 20


def on_starting(_server: Any) -> None:
    """Refuse to start, in words, where no worker could: gunicorn would start one after the other.

    A process that serves HTTP only starts without a database, and answers 503 until it is there.
    """
    import os

    import sqlalchemy as sa

    from mailagent.cli.printing import explain
    from mailagent.settings import SettingsProblem, load_settings
    from mailagent.store.database import open_database
    from mailagent.store.migration import SchemaProblem, check_schema

    try:
        settings = load_settings(os.environ)
    except SettingsProblem as problem:
        _refuse(str(problem))
    if not settings.runs_workflows:
        return
    database = open_database(settings.database_url)
    try:
        check_schema(database)
    except SchemaProblem as problem:
        _refuse(str(problem))
    except sa.exc.DBAPIError as problem:
        _refuse(explain(problem))
    finally:
        database.close()  # nothing of it may be taken over a fork


def _refuse(why: str) -> NoReturn:
    print(why, file=sys.stderr)  # noqa: T201 - there is no worker and no log yet
    sys.exit(1)


def post_worker_init(worker: Any) -> None:
    """Start the workflows in a fresh worker process, if its role has them."""
    from mailagent.cli.worker import engine_of
    from mailagent.workflows.launch import launch

    settings = worker.app.callable.config["MAILAGENT"]
    if settings.runs_workflows:
        launch(engine_of(settings))


def worker_exit(_server: Any, worker: Any) -> None:
    """Let runs at work finish before the process ends."""
    from mailagent.workflows.launch import stop

    app = worker.app.callable
    if app is not None and app.config["MAILAGENT"].runs_workflows:
        stop(DRAIN_SECONDS)
