"""`python -m tests.programs.crash_sweep.forking`: loads the app's modules once and forks a gunicorn
for each order.

Orders are lines of JSON on standard input, answers are process ids. What is forked is gunicorn as
it always is: a master, and a worker that makes the app from its own environment.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from typing import Any, NoReturn

_MODULES = (
    "dbos._sys_db_postgres",
    "dbos._sys_db_sqlite",
    "gunicorn.app.wsgiapp",
    "mailagent.adapters.openai.client",
    "mailagent.adapters.sendgrid.sender",
    "mailagent.adapters.stripe.gateway",
    "mailagent.app",
    "mailagent.buffering",
    "mailagent.cli.worker",
    "mailagent.demo.crash_point",
    "mailagent.store.migration",
    "mailagent.workflows.launch",
    "openai.resources.responses",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)


def main() -> None:
    """Fork a gunicorn for every order until there are no more."""
    _load_modules()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets the dead
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_gunicorn(order)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _load_modules() -> None:
    """Load what costs a start its time; `wsgi` is left to each worker, because it makes the app."""
    for name in _MODULES:
        importlib.import_module(name)


def _become_gunicorn(order: dict[str, Any]) -> NoReturn:
    with contextlib.suppress(PermissionError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for wanted, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(wanted, standard)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = [
        *("gunicorn", "-c", "python:mailagent.serving", "wsgi:app"),
        *("--bind", f"127.0.0.1:{order['port']}"),
    ]
    try:
        importlib.import_module("gunicorn.app.wsgiapp").run()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
