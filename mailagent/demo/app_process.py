"""The app as a child process of the demo: started, watched for readiness, killed, stopped."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import mailagent

ROOT = Path(mailagent.__file__).absolute().parent.parent
_STOP_SECONDS = 8.0


class CommandFailed(Exception):
    """A command of the app failed; the text holds the end of what it said."""


def run_command(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Run one of the app's Python modules to its end. Raises CommandFailed."""
    done = subprocess.run(  # noqa: S603 - our own interpreter with our own arguments
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise CommandFailed(f"`{' '.join(arguments)}` failed:\n{said}")


class AppProcess:
    """gunicorn and its worker, in a process group of their own so that both can be killed at once.

    They inherit the open files in `keep`: a lock among them lasts for as long as they live.
    """

    def __init__(
        self, port: int, environment: Mapping[str, str], log: Path, keep: Sequence[int] = ()
    ) -> None:
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
                pass_fds=keep,
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
        """Ask the app whether it can work: database reachable and migrated."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """SIGKILL, as a power cut or the kernel's out-of-memory killer would."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ask the app to end, and make it end when it does not."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while not self.has_died and time.monotonic() < deadline:
            self.wait(0.1)
        self.kill()  # also a worker that has outlived its master

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
