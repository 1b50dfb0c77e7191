"""Starts many gunicorns fast: Python's fork server has loaded the app's modules, and forks itself for each."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

_DEAD_SECONDS = 10.0
_CONTEXT = get_context("forkserver")
# What takes time to load. `wsgi` is left to each worker, because it makes the app.
_CONTEXT.set_forkserver_preload(
    [
        *("dbos._sys_db_postgres", "dbos._sys_db_sqlite", "gunicorn.app.wsgiapp"),
        *("mailagent.app", "mailagent.buffering", "mailagent.cli.worker"),
        *("mailagent.adapters.openai.client", "mailagent.adapters.sendgrid.sender"),
        *("mailagent.adapters.sendgrid.signature", "mailagent.adapters.policy_file"),
        *("mailagent.adapters.stripe.gateway", "mailagent.backtest.shadow"),
        *("mailagent.demo.crash_point", "mailagent.store.migration", "mailagent.workflows.launch"),
        *("openai.resources.responses", "psycopg"),
        *("sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite"),
        "tests.programs.crash_sweep.preloaded",
    ]
)


class App:
    """gunicorn and its worker, in a process group of their own so that both can be killed at once."""

    def __init__(self, port: int, environment: Mapping[str, str], log: Path) -> None:
        self._process = _CONTEXT.Process(target=_serve, args=(port, dict(environment), str(log)))
        self._process.start()

    def kill(self) -> None:
        """Send SIGKILL to both, and wait until the master is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join(_DEAD_SECONDS)


def _serve(port: int, environment: dict[str, str], log: str) -> NoReturn:
    """Become gunicorn as it always is: a master, and a worker that makes the app from its own environment."""
    os.setpgid(0, 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [
        *("gunicorn", "-c", "python:mailagent.serving", "wsgi:app"),
        *("--bind", f"127.0.0.1:{port}"),
    ]
    try:
        importlib.import_module("gunicorn.app.wsgiapp").run()
    finally:
        os._exit(1)
