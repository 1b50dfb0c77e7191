"""`flask demo` as a process: which port it takes, how it ends, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailagent.demo.process import ROOT
from mailagent.demo.show import DEFAULT_PORT
from tests.harness import wait_until
from tests.processes import base_environment


def start(folder: Path, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    """Start the command in `folder`, as a shell does: in a process group that Ctrl-C goes to."""
    return subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", str(ROOT / "wsgi.py"), "demo", *arguments],
        cwd=folder,
        env={
            **base_environment(),
            **{"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home")},
            **settings,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("tmp", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


@contextlib.contextmanager
def busy(port: int) -> Iterator[None]:
    """Keep a port busy; somebody else may do so already."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
            taken.listen()
        yield


def left_behind(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} - {"tmp", "home"}


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of the processes that work for a demo in `folder`."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and os.fsencode(folder) in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def say_until(demo: subprocess.Popen[str], words: str) -> str:
    """Return what the demo says up to the line with these words."""
    assert demo.stdout
    said = ""
    for line in demo.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"the demo ended without {words!r}: {said}")


def test_a_busy_port_is_avoided_and_ctrl_c_ends_everything(folder: Path) -> None:
    with busy(DEFAULT_PORT):
        demo = start(folder)
        said = say_until(demo, "/demo/")
        found = re.search(r"http://127\.0\.0\.1:(\d+)/demo/", said)
        assert found
        assert int(found[1]) != DEFAULT_PORT
        assert f"Port {DEFAULT_PORT} is taken, so the demo uses {found[1]}." in said
        assert len(processes_of(folder)) > 1
        os.killpg(demo.pid, signal.SIGINT)
        rest, _ = demo.communicate(timeout=30)
    assert demo.returncode == 0
    assert "Stopped." in rest
    assert "Traceback" not in rest
    wait_until(lambda: processes_of(folder) == [], 5, "the end of every process")
    assert left_behind(folder) == set()


@pytest.mark.parametrize("seconds", [0.0, 0.7, 1.5, 2.5])
def test_ctrl_c_while_it_starts_ends_everything(folder: Path, seconds: float) -> None:
    demo = start(folder, "--once", "--port", "0")
    said = say_until(demo, "The model is")
    time.sleep(seconds)
    os.killpg(demo.pid, signal.SIGINT)
    rest, _ = demo.communicate(timeout=30)
    assert demo.returncode == 130, said + rest
    assert "Traceback" not in rest
    wait_until(lambda: processes_of(folder) == [], 5, "the end of every process")
    assert left_behind(folder) == set()


def test_a_busy_port_that_was_asked_for_is_told(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo = start(folder, "--once", "--port", str(port))
        said, _ = demo.communicate(timeout=30)
    assert demo.returncode == 1
    assert f"Port {port} of 127.0.0.1 cannot be used" in said
    assert "leave --port out" in said
    assert left_behind(folder) == set()


@pytest.mark.parametrize("port", ["-1", "65536", "9" * 30, "http"])
def test_what_is_no_port_is_told(folder: Path, port: str) -> None:
    demo = start(folder, "--once", "--port", port)
    said, _ = demo.communicate(timeout=30)
    assert demo.returncode == 2
    assert "Invalid value for '--port'" in said
    assert "Traceback" not in said


def test_a_wrong_setting_is_told_before_anything_starts(folder: Path) -> None:
    demo = start(folder, "--once", "--port", "0", MAILS_PER_HOUR="abc")
    said, _ = demo.communicate(timeout=30)
    assert demo.returncode == 2
    assert "MAILS_PER_HOUR: " in said
    assert "Your settings hold" not in said
    assert "Traceback" not in said
    assert left_behind(folder) == set()
