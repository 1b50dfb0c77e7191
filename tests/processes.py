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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

from mailagent.demo.process import ROOT
from tests.harness import wait_until
from tests.ports import choose_port

P = ParamSpec("P")
T = TypeVar("T")

START_SECONDS = 60.0
_STOP_SECONDS = 10.0
# Nothing else of the caller's environment: a key or an endpoint set for real must not be used here.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")


class ProcessFailed(AssertionError):
    """A process ended or does not answer; the text holds the end of what it said."""


def base_environment() -> dict[str, str]:
    """Return what every process gets."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    local = "127.0.0.1,localhost"  # the SDKs would ask a proxy for servers of this machine, too
    return {
        **kept,
        "NO_PROXY": local,
        "no_proxy": local,
        "PYTHONUNBUFFERED": "1",
        "FLASK_SKIP_DOTENV": "1",
    }


def in_a_process(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in a new process of its own, which has imported nothing but the function's module."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(call, *arguments, **named).result()


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

    def check(self) -> None:
        """Raise ProcessFailed when the process has ended."""
        if not self.lives:
            code = self._process.returncode if self._process else None
            raise ProcessFailed(f"{self.name} ended ({code}):\n{self.said()[-3000:]}")

    def wait_until(self, ready: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Wait until `ready()` holds. Raises ProcessFailed when the process ends or takes too long."""
        deadline = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} is not ready:\n{self.said()[-3000:]}")
            time.sleep(0.02)

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

    def stop(self) -> None:
        """Ask the process and its children to end, and kill them when they do not."""
        self._signal_all(signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            self.wait(_STOP_SECONDS)
        self.kill()

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
    """`flask worker`. `arguments`: a program that does the same and something more."""

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
        self.wait_until(lambda: self.said().count("The worker runs") > before)


class Web(Process):
    """gunicorn; `role` may be `all`. `arguments`: what it serves, and how."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str],
        folder: Path,
        role: str = "web",
        arguments: Sequence[str] = ("-c", "python:mailagent.serving", "wsgi:app"),
        port: int | None = None,
    ) -> None:
        self.port = port or choose_port()
        arguments = ["gunicorn", *arguments, "--bind", f"127.0.0.1:{self.port}"]
        own = {"MAILAGENT_ROLE": role, "WORKER_ID": name}
        super().__init__(name, arguments, {**environment, **own}, folder / f"{name}.log")

    def start_and_wait(self) -> None:
        self.start()
        self.wait_until(lambda: self.is_ready)

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
