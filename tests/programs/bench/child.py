"""Other programs as child processes: started, asked for their CPU time, stopped. Linux only (/proc)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mailagent.demo.process import ROOT

# Nothing else of the caller's environment: a key or an endpoint set for real must not be used here.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")
_STOP_SECONDS = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")


def base_environment() -> dict[str, str]:
    """Return what every child gets."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    local = "127.0.0.1,localhost"  # the SDKs would ask a proxy for servers of this machine, too
    return {**kept, "NO_PROXY": local, "no_proxy": local, "PYTHONUNBUFFERED": "1"}


class ChildFailed(Exception):
    """A child process ended or does not answer; the text holds the end of what it said."""


class Child:
    """A Python module that runs beside us, with its own children in one process group."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._what = " ".join(arguments)
        # Several children may have one log, one after the other.
        self._log_from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def said(self) -> str:
        return self._log.read_bytes()[self._log_from :].decode("utf-8", "replace")

    def check(self) -> None:
        """Raise ChildFailed when the process has ended."""
        if self._process.poll() is not None:
            end = "\n".join(self.said().splitlines()[-15:])
            raise ChildFailed(f"`{self._what}` ended ({self._process.returncode}):\n{end}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time of the whole group so far, ended children included."""
        return sum(_ticks(entry, self._process.pid) for entry in Path("/proc").iterdir()) / _TICKS

    def kill(self) -> None:
        """End the group at once, as a power cut would."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ask the group to end, and make it end when it does not."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _ticks(entry: Path, group: int) -> int:
    """Return the CPU ticks of a process if it belongs to `group`."""
    fields = _stat(entry)
    return sum(map(int, fields[11:15])) if fields and int(fields[2]) == group else 0


def _stat(entry: Path) -> list[str]:
    """Return the fields of a process after its name: state, parent, group, … (proc_pid_stat(5)); none
    when it has ended while we looked."""
    if not entry.name.isdigit():
        return []
    try:
        # The name in brackets may hold spaces and brackets itself; the fields begin after the last.
        return (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_seconds_of_children(one: int, name: str) -> float:
    """Return the CPU time of the parent of process `one` and of all its children, ended ones included; 0
    if there is no such process here, or it is not called `name`."""
    proc = Path("/proc")
    fields = _stat(proc / str(one))
    if not fields or (proc / str(one) / "comm").read_text("utf-8").strip() != name:
        return 0.0
    parent = fields[1]
    family = [each for each in map(_stat, proc.iterdir()) if each and each[1] == parent]
    return sum(sum(map(int, each[11:15])) for each in [*family, _stat(proc / parent)]) / _TICKS


def run_script(module: str, job: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    """Run a module that reads a job as JSON and prints its result as JSON. Raises ChildFailed."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env=dict(environment),
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        end = "\n".join(done.stderr.splitlines()[-15:])
        raise ChildFailed(f"`{module}` ended ({done.returncode}):\n{end}")
    return json.loads(done.stdout.splitlines()[-1])


def wait_until_ready(child: Child, ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until `ready()` holds. Raises ChildFailed when the child ends or takes too long."""
    deadline = time.monotonic() + seconds
    while not ready():
        child.check()
        if time.monotonic() > deadline:
            raise ChildFailed(f"not ready after {seconds:g} s:\n{child.said()[-2000:]}")
        time.sleep(0.02)
