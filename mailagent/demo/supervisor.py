"""Keeps the demo's app alive: prepares its database, starts it, and starts it again when it dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from mailagent.demo import shop
from mailagent.demo.app_process import AppProcess, run_command
from mailagent.demo.folder import DemoFolder

_READY_SECONDS = 30.0
_MAX_DEATHS_AT_START = 3


class AppWillNotStart(Exception):
    """The app does not come up; the text holds the end of its log."""


class Supervisor:
    """`environment` is what the next start gets; it may be changed between starts.

    `pause_seconds`: how long the app stays dead, so that people can see it.
    """

    def __init__(
        self,
        folder: DemoFolder,
        port: int,
        environment: dict[str, str],
        say: Callable[[str], None],
        pause_seconds: float = 0.0,
    ) -> None:
        self.environment = environment
        self._pause_seconds = pause_seconds
        self._folder = folder
        self._port = port
        self._say = say
        self._app: AppProcess | None = None
        self._changed = threading.Condition()
        self._ready = False
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def prepare(self) -> None:
        """Bring the database up to date and fill the shop, the first time. Raises CommandFailed."""
        run_command(["alembic", "upgrade", "head"], self.environment)
        if not self._folder.is_seeded:
            self._folder.orders.write_text(shop.orders_file(datetime.now(UTC)), "utf-8")
            orders = str(self._folder.orders)
            run_command(["flask", "--app", "wsgi", "orders", "import", orders], self.environment)
            self._folder.record_seeded()

    def start(self) -> None:
        """Start the app and look after it from now on. Raises AppWillNotStart."""
        self._watcher.start()
        self.wait_until_ready()

    def crash(self) -> None:
        """Kill the app with SIGKILL; it is started again at once."""
        with self._changed:
            app, self._ready = self._app, False
        if app is not None:
            app.kill()

    def wait_until_ready(self) -> None:
        """Wait until the app answers. Raises AppWillNotStart."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._failure, _READY_SECONDS)
            if not self._ready:
                raise AppWillNotStart(self._failure or self._log_end("The app does not answer."))

    @property
    def failure(self) -> str | None:
        """Why the supervisor gave up; None while it has not."""
        return self._failure

    def stop(self) -> None:
        """Stop the app and everything it started."""
        self._stopping.set()
        if self._watcher.ident is not None:
            self._watcher.join()

    def _watch(self) -> None:
        deaths_at_start = 0
        while not self._stopping.is_set() and deaths_at_start < _MAX_DEATHS_AT_START:
            app = AppProcess(
                self._port,
                self.environment,
                self._folder.app_log,
                keep=[self._folder.lock_descriptor],
            )
            with self._changed:
                self._app = app
            came_up = self._come_up(app)
            while not app.wait(0.1) and not self._stopping.is_set():
                pass
            if self._stopping.is_set():
                app.stop()
                return
            deaths_at_start = 0 if came_up else deaths_at_start + 1
            app.kill()  # gunicorn may have died before its worker
            self._note_death(app)
            self._stopping.wait(self._pause_seconds)
        with self._changed:
            self._failure = self._log_end("The app does not start.")
            self._changed.notify_all()

    def _come_up(self, app: AppProcess) -> bool:
        began = time.monotonic()
        while not app.has_died and not self._stopping.is_set():
            if app.is_ready():
                self._say(f"The app is up (after {time.monotonic() - began:.1f} s).")
                with self._changed:
                    self._ready = True
                    self._changed.notify_all()
                return True
            app.wait(0.1)
        return False

    def _note_death(self, app: AppProcess) -> None:
        with self._changed:
            self._ready = False
        self._say(f"The app process died ({app.cause_of_death}). Starting it again …")

    def _log_end(self, what: str) -> str:
        lines = self._folder.app_log.read_text("utf-8", "replace").splitlines()[-15:]
        return "\n".join([f"{what} The end of {self._folder.app_log}:", *lines])
