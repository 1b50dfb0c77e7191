"""Runs the demo's app as a process: prepares its database, starts it, restarts it after a crash."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import mailagent

_READY_SECONDS = 30.0
_MAX_DEATHS_AT_START = 3


class AppWillNotStart(Exception):
    """The app does not start; the text has the end of its log."""


class Supervisor:
    """Keeps the app running. The next start gets `environment`, which may be changed between starts.

    `folder` gets the app's log. `pause_seconds`: how long the app stays dead after a crash, so that people can
    see it.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        environment: dict[str, str],
        say: Callable[[str], None],
        pause_seconds: float = 0.0,
    ) -> None:
        self.environment = environment
        self._pause_seconds = pause_seconds
        self.log = folder / "app.log"
        self._port = port
        self._say = say
        self._app: AppProcess | None = None
        self._changed = threading.Condition()
        self._ready = False
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def prepare(self) -> None:
        """Make the database. Raises CommandFailed."""
        run_command(["alembic", "upgrade", "head"], self.environment)

    def start(self) -> None:
        """Start the app, and restart it whenever it dies. Raises AppWillNotStart."""
        self._watcher.start()
        self.wait_until_ready()

    def crash(self) -> None:
        """Kill the app with SIGKILL. The supervisor starts it again."""
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
            app = AppProcess(self._port, self.environment, self.log)
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
            with self._changed:
                self._ready = False
            self._say(f"The app process died ({app.cause_of_death}). Starting it again …")
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

    def _log_end(self, what: str) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-15:]
        return "\n".join([f"{what} The end of its log:", *lines])


# --- app process ----------------------------------------------------------------------------------


ROOT = Path(mailagent.__file__).absolute().parent.parent
_STOP_SECONDS = 8.0


class CommandFailed(Exception):
    """A command of the app failed; the text has the end of its output."""


def run_command(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Run one of the app's Python modules, and wait for its end. Raises CommandFailed."""
    done = subprocess.run(  # noqa: S603 - our own interpreter with our own arguments
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise CommandFailed(f"`{' '.join(arguments)}` failed:\n{output}")


class AppProcess:
    """gunicorn and its worker, in a process group of their own so that both can be killed at once."""

    def __init__(self, port: int, environment: Mapping[str, str], log: Path) -> None:
        self._port = port
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own arguments
                [
                    *(sys.executable, "-m", "gunicorn", "-c", "python:mailagent.serving"),
                    *("wsgi:app", "--bind", f"127.0.0.1:{port}"),
                ],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the supervisor alone
            )

    @property
    def has_died(self) -> bool:
        return self._process.poll() is not None

    @property
    def cause_of_death(self) -> str:
        code = self._process.returncode
        if code is None or code >= 0:
            return f"exit code {code}"
        return signal.Signals(-code).name

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def is_ready(self) -> bool:
        """Return whether the app is ready: its database is reachable and migrated."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """Send SIGKILL to gunicorn and its worker."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the app is still running after 8 seconds."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while not self.has_died and time.monotonic() < deadline:
            self.wait(0.1)
        self.kill()  # a worker may outlive its master

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
