"""The app's processes as a platform runs them: web and worker processes that are started, asked to end,
killed, stopped and continued."""

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

from mailagent.demo.process import ROOT
from tests.harness import wait_until
from tests.ports import choose_port

START_SECONDS = 60.0


class Process:
    """One process of the app with its children; `start` may be called again when it has ended."""

    def __init__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ):
        self.name = name
        self._arguments, self._environment, self.log = list(arguments), dict(environment), log
        self._process: subprocess.Popen[bytes] | None = None
        self.frozen = False

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._arguments],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.frozen = False

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether the kernel has stopped it (state T of proc_pid_stat(5))."""
        stat = Path(f"/proc/{self.pid}/stat").read_text("utf-8", "replace")
        return stat.rpartition(")")[2].split()[0] == "T"

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def ask_to_end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the first process only, as a platform does; gunicorn tells its own."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> float:
        """Wait for the end; return how long that took. Raises AssertionError in vain."""
        began = time.monotonic()
        wait_until(lambda: not self.lives, seconds, f"{self.name} to end")
        return time.monotonic() - began

    def kill(self) -> None:
        self._signal_all(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self.frozen = False

    def freeze(self) -> None:
        self.frozen = True
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self.frozen = False
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class Worker(Process):
    """`flask worker`. `module`: a program that does the same and something more."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str],
        folder: Path,
        arguments: Sequence[str] = ("flask", "--app", "wsgi", "worker"),
    ) -> None:
        own = {"MAILAGENT_ROLE": "worker", "WORKER_ID": name}
        super().__init__(name, arguments, {**environment, **own}, folder / f"{name}.log")

    def start_and_wait(self) -> None:
        before = self.said().count("The worker runs")
        self.start()
        wait_until(
            lambda: self.said().count("The worker runs") > before or not self.lives,
            START_SECONDS,
            f"{self.name} to run",
        )
        assert self.lives, self.said()[-3000:]


class Web(Process):
    """gunicorn; `role` may be `all`."""

    def __init__(
        self, name: str, environment: Mapping[str, str], folder: Path, role: str = "web"
    ) -> None:
        self.port = choose_port()
        arguments = [
            *("gunicorn", "-c", "python:mailagent.serving", "wsgi:app"),
            *("--bind", f"127.0.0.1:{self.port}"),
        ]
        own = {"MAILAGENT_ROLE": role, "WORKER_ID": name}
        super().__init__(name, arguments, {**environment, **own}, folder / f"{name}.log")

    def start_and_wait(self) -> None:
        self.start()
        wait_until(lambda: self.is_ready or not self.lives, START_SECONDS, f"{self.name} to answer")
        assert self.lives, self.said()[-3000:]

    @property
    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
