"""gunicorn's configuration: `gunicorn -c python:mailagent.serving wsgi:app`.

One process with threads. In the role `all` it also runs the workflows. They start after the fork, because
neither threads nor database connections survive a fork.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import sys
import threading
from queue import SimpleQueue
from types import FrameType
from typing import Any

import click
from gunicorn.glogging import Logger

from mailagent.adapters import env_file

env_file.load()

# gunicorn binds 127.0.0.1:8000, or 0.0.0.0:$PORT if PORT is set, or what --bind says.
workers = 1
worker_class = "mailagent.buffering.BufferingWorker"
threads = 16
# A connection has up to two open files: its socket and a large body. systemd allows 1,024 files.
worker_connections = 500
timeout = 60
# In the role `all`, running steps get 20 seconds to finish; the rest of the shutdown takes at most 9.
graceful_timeout = 30
control_socket_disable = True  # gunicorn would make one in the home directory, shared by all apps
limit_request_line = 8190

DRAIN_SECONDS = 20

# These paths hold a token that approves a refund, votes or logs in.
_SECRET = re.compile(r"(/(?:approvals|helped|ops/login)/)[^\s/?\"]+")


def without_tokens(text: str) -> str:
    """Return a URL or a request line without the tokens in its path."""
    return _SECRET.sub(r"\1…", text)


def _cut_tokens(record: logging.LogRecord) -> bool:
    record.msg, record.args = without_tokens(record.getMessage()), ()
    return True


class ServerLog(Logger):  # type: ignore[misc]  # the package ships no types
    """gunicorn's error and access log, in our log format and without the tokens of links."""

    def setup(self, cfg: Any) -> None:
        """Set up gunicorn's handlers; format their lines as JSON if LOG_FORMAT says so."""
        from mailagent.telemetry import log_lines

        super().setup(cfg)
        self.error_log.addFilter(_cut_tokens)  # it logs the URL of a failed request
        if log_lines.format_of(os.environ) != log_lines.JSON:
            return
        for log in (self.error_log, self.access_log):
            for handler in log.handlers:
                handler.setFormatter(log_lines.JsonLine())

    def atoms(self, *facts: Any) -> dict[str, Any]:
        """Return the values of an access log line."""
        return {
            name: without_tokens(value) if isinstance(value, str) else value
            for name, value in super().atoms(*facts).items()
        }


logger_class = ServerLog


def on_starting(_server: Any) -> None:
    """Exit with a message if no worker could start: gunicorn would restart workers for ever.

    In the role `web` the process starts without a database and answers 503 until it is there. In the role
    `all` it waits for the database here.
    """
    from mailagent.settings import SettingsProblem, load_settings

    try:
        settings = load_settings(os.environ)
        if settings.runs_workflows:
            _wait_for_database(settings.database_url)
    except SettingsProblem as problem:
        sys.exit(str(problem))
    except click.ClickException as problem:
        sys.exit(problem.message)
    # A collection in the worker process would otherwise write to, and so copy, what it shares with this one.
    gc.freeze()


def _wait_for_database(url: str) -> None:
    # Imported here: gunicorn's parent process needs these modules in no other place.
    from mailagent.cli.worker import catch_signals, wait_for_database
    from mailagent.store.database import open_database

    database = open_database(url)
    signals = catch_signals()  # until the server installs its own handlers
    try:
        if not wait_for_database(database, signals):
            sys.exit(0)
    finally:
        database.close()  # a connection must not be shared with a forked process


def post_worker_init(worker: Any) -> None:
    """Start the workflow engine in a new worker process, if its role runs workflows."""
    from mailagent.cli.worker import start

    settings = worker.app.callable.config["MAILAGENT"]
    start(settings)
    if settings.runs_workflows:
        _drains.append(Drain())
    # The objects of the start live for ever. Without this, a full collection of them stops a request for 0.1 s.
    gc.freeze()


def post_request(worker: Any, _request: Any, environ: dict[str, Any], _response: Any) -> None:
    """Remember the client address of a signed request: such a client may have many unfinished requests."""
    from mailagent.web.webhooks.signature import VERIFIED

    if VERIFIED in environ:
        worker.verified(environ["REMOTE_ADDR"])


class Drain:
    """On SIGTERM, lets running steps finish at the same time as the running requests: both must end within
    `graceful_timeout`."""

    def __init__(self) -> None:
        # SimpleQueue.put is reentrant, so a signal handler may call it.
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._gunicorns = signal.getsignal(signal.SIGTERM)
        self._thread = threading.Thread(target=self._drain, name="drain", daemon=True)
        self._thread.start()
        signal.signal(signal.SIGTERM, self._on_signal)
        # As gunicorn does: a signal must not break reads.
        signal.siginterrupt(signal.SIGTERM, False)

    def finish(self) -> None:
        """Start the drain if no signal has, and wait for its end. Call this once."""
        self._signals.put(signal.SIGTERM)
        self._thread.join()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.put(number)
        if callable(self._gunicorns):
            self._gunicorns(number, frame)

    def _drain(self) -> None:
        from mailagent.workflows.launch import stop

        self._signals.get()
        stop(DRAIN_SECONDS)


_drains: list[Drain] = []


def worker_exit(_server: Any, _worker: Any) -> None:
    """Let running steps finish before the process ends."""
    from mailagent.cli.worker import leave
    from mailagent.telemetry import spans

    for drain in _drains:
        drain.finish()
        leave()
    spans.stop()
