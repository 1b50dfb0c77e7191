"""gunicorn's configuration: `gunicorn -c python:mailagent.serving wsgi:app`.

One process with threads. In the role `all` it also runs the workflows; they are started after the
fork, because neither threads nor database connections survive one.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from queue import SimpleQueue
from types import FrameType
from typing import Any, NoReturn

from gunicorn.glogging import Logger

# The address is gunicorn's own: 127.0.0.1:8000, 0.0.0.0:$PORT where PORT is set, or --bind.
workers = 1
worker_class = "mailagent.buffering.BufferingWorker"
threads = 16
# Each has an open file, and another one where a large body waits on disk; systemd allows 1,024.
worker_connections = 500
timeout = 60
# Above the worst end of the role `all`: steps at work may end for 20 seconds, what follows takes 9 at most.
graceful_timeout = 30
control_socket_disable = True  # it would be made in the home directory, one for all apps
# Inbound mail comes in one body of up to 30 MB, sometimes chunked; nothing here limits it.
limit_request_line = 8190

DRAIN_SECONDS = 20

# What stands behind these acts for somebody, or logs somebody in.
_SECRET = re.compile(r"(/(?:approvals|ops/login)/)[^\s/?\"]+")


def without_tokens(text: str) -> str:
    """Return an address, or a line that begins a request, without the token of a link in it."""
    return _SECRET.sub(r"\1…", text)


def _cut_tokens(record: logging.LogRecord) -> bool:
    record.msg, record.args = without_tokens(record.getMessage()), ()
    return True


class ServerLog(Logger):  # type: ignore[misc]  # the package ships no types
    """gunicorn's own lines and those about requests: in the format of all others, and without the tokens
    of links."""

    def setup(self, cfg: Any) -> None:
        """Make the handlers, as the server does, with our lines if those are JSON."""
        from mailagent.settings import log_format_of
        from mailagent.telemetry import log_lines

        super().setup(cfg)
        self.error_log.addFilter(_cut_tokens)  # it names the address of a request that failed
        if log_format_of(os.environ) != log_lines.JSON:
            return
        for log in (self.error_log, self.access_log):
            for handler in log.handlers:
                handler.setFormatter(log_lines.JsonLine())

    def atoms(self, *facts: Any) -> dict[str, Any]:
        """Return what a line about a request may say."""
        return {
            name: without_tokens(value) if isinstance(value, str) else value
            for name, value in super().atoms(*facts).items()
        }


logger_class = ServerLog


def on_starting(_server: Any) -> None:
    """Refuse to start, in words, where no worker could: gunicorn would start one after the other.

    A process that serves HTTP only starts without a database, and answers 503 until it is there. One that
    runs workflows waits for its server here.
    """
    from mailagent.settings import SettingsProblem, load_settings

    try:
        settings = load_settings(os.environ)
    except SettingsProblem as problem:
        _refuse(str(problem))
    if settings.runs_workflows:
        _wait_for_database(settings.database_url)


def _wait_for_database(url: str) -> None:
    # Not above: gunicorn's first process never needs them again, and would hold their memory for ever.
    import sqlalchemy as sa

    from mailagent.cli.printing import explain
    from mailagent.cli.waiting import hear_signals, wait_for_database
    from mailagent.store.database import open_database
    from mailagent.store.migration import SchemaProblem

    database = open_database(url)
    signals = hear_signals()  # until the server installs its own handlers
    try:
        if not wait_for_database(database, lambda words: print(words, file=sys.stderr), signals):  # noqa: T201 - likewise
            sys.exit(0)
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
    """Start workflows in a fresh worker process, if its role says so."""
    from mailagent.cli.worker import engine_of
    from mailagent.telemetry import spans
    from mailagent.workflows.launch import launch

    settings = worker.app.callable.config["MAILAGENT"]
    if settings.otlp_endpoint:
        spans.start(settings.otlp_endpoint, settings.role)
    if settings.runs_workflows:
        launch(engine_of(settings))
        _drains.append(Drain())


def post_request(worker: Any, _request: Any, environ: dict[str, Any], _response: Any) -> None:
    """Note where signed mail comes from: such an address may have many requests under way."""
    from mailagent.web.webhooks.signature import VERIFIED

    if VERIFIED in environ:
        worker.verified(environ["REMOTE_ADDR"])


class Drain:
    """Lets steps at work finish from SIGTERM on, beside the requests in flight and not after them: both
    have to be done before gunicorn loses its patience."""

    def __init__(self) -> None:
        # Reentrant, as a handler must be that another signal may interrupt.
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._answering = signal.getsignal(signal.SIGTERM)
        self._thread = threading.Thread(target=self._drain, name="drain", daemon=True)
        self._thread.start()
        signal.signal(signal.SIGTERM, self._hear)
        signal.siginterrupt(signal.SIGTERM, False)  # as gunicorn has it: requests go on reading

    def finish(self) -> None:
        """Wait for the end of it; to be called once when the process has nothing else to do."""
        self._signals.put(signal.SIGTERM)
        self._thread.join()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._signals.put(number)
        if callable(self._answering):
            self._answering(number, frame)

    def _drain(self) -> None:
        from mailagent.workflows.launch import stop

        self._signals.get()
        stop(DRAIN_SECONDS)


_drains: list[Drain] = []


def worker_exit(_server: Any, _worker: Any) -> None:
    """Let steps at work finish before the process ends."""
    from mailagent.cli.worker import leave
    from mailagent.telemetry import spans

    for drain in _drains:
        drain.finish()
        leave()
    spans.stop()
