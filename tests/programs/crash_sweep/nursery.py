"""Starts many gunicorns fast: `forking` has loaded the app's modules, and forks itself for each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from mailagent.demo.process import ROOT

_DEAD_SECONDS = 10.0


class Nursery:
    """The process that forks; one may serve several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.programs.crash_sweep.forking"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, port: int, environment: Mapping[str, str], log: Path) -> GrownApp:
        """Start a gunicorn on a port; raises RuntimeError when the nursery is gone."""
        order = {"port": port, "environment": dict(environment), "log": str(log)}
        orders, answers = _streams(self._process)
        with self._lock:
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            answer = answers.readline()
        if not answer:
            raise RuntimeError(f"the nursery has ended with {self._process.poll()}")
        return GrownApp(int(answer))

    def close(self) -> None:
        """End the nursery; what it started goes on."""
        for stream in _streams(self._process):
            stream.close()
        self._process.wait()


def _streams(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


class GrownApp:
    """gunicorn and its worker, in a process group of their own so that both can be killed at once."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def kill(self) -> None:
        """SIGKILL to both, and wait until the master is gone."""
        deadline = time.monotonic() + _DEAD_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
            while time.monotonic() < deadline:
                os.kill(self._pid, 0)
                time.sleep(0.01)
