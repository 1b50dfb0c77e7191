"""What a container's health check says of a process that serves, that works, and that hangs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mailagent.demo.fakes.http_server import Answer, LocalServer
from mailagent.demo.process import ROOT
from mailagent.demo.show import find_port
from mailagent.healthcheck import SILENT_SECONDS, find_problem


@contextmanager
def serving(status: int) -> Iterator[int]:
    """Give the port of a process whose /healthz answers so."""
    routes = {"GET /healthz": lambda _request: Answer(status)}
    server = LocalServer(routes, lambda _request: Answer(404))
    server.start()
    yield int(server.url.rpartition(":")[2])
    server.stop()


def beaten(folder: Path, seconds_ago: float) -> dict[str, str]:
    """Return the environment of a worker whose last beat was so long ago."""
    file = folder / "beat"
    file.touch()
    then = time.time() - seconds_ago
    os.utime(file, (then, then))
    return {"WORKER_BEAT_FILE": str(file)}


@pytest.mark.parametrize("role", ["web", "all", ""])
def test_a_process_that_serves_lives_while_it_answers(role: str) -> None:
    with serving(200) as port:
        assert find_problem({"MAILAGENT_ROLE": role}, port) is None
    assert "does not answer" in (find_problem({"MAILAGENT_ROLE": role}, port) or "")
    with serving(500) as port:
        assert "answers 500" in (find_problem({"MAILAGENT_ROLE": role}, port) or "")


@pytest.mark.parametrize(
    ("silent", "lives"),
    [(0, True), (SILENT_SECONDS - 5, True), (SILENT_SECONDS + 5, False)],
    ids=["just beaten", "slow", "silent"],
)
def test_a_worker_lives_while_it_beats(tmp_path: Path, silent: float, lives: bool) -> None:
    environment = {"MAILAGENT_ROLE": "worker", **beaten(tmp_path, silent)}
    assert (find_problem(environment, find_port(0)) is None) is lives


def test_a_worker_that_waits_for_its_database_has_not_beaten_yet_and_lives(tmp_path: Path) -> None:
    environment = {"MAILAGENT_ROLE": "worker", "WORKER_BEAT_FILE": str(tmp_path / "beat")}
    assert find_problem(environment, find_port(0)) is None


def test_a_worker_is_ready_once_it_beats(tmp_path: Path) -> None:
    def look(**environment: str) -> str:
        return find_problem({"MAILAGENT_ROLE": "worker", **environment}, ready=True) or ""

    assert look(WORKER_BEAT_FILE=str(tmp_path / "beat")) == "the worker has not started yet"
    assert look(**beaten(tmp_path, 0)) == ""
    assert "last heartbeat was" in look(**beaten(tmp_path, SILENT_SECONDS + 5))
    assert "WORKER_BEAT_FILE is not set" in look()


def test_in_one_process_both_have_to_live(tmp_path: Path) -> None:
    silent = beaten(tmp_path, SILENT_SECONDS + 5)
    with serving(200) as port:
        assert "last heartbeat was" in (
            find_problem({"MAILAGENT_ROLE": "all", **silent}, port) or ""
        )
        assert find_problem({"MAILAGENT_ROLE": "web", **silent}, port) is None


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mailagent.healthcheck", *arguments],
        cwd=ROOT,
        env={"MAILAGENT_ROLE": "worker", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_says_why_and_exits_with_1(tmp_path: Path) -> None:
    done = run(beaten(tmp_path, 200))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r"the worker's last heartbeat was 2\d\d seconds ago", done.stderr)


def test_the_program_tells_one_that_lives_from_one_that_is_ready(tmp_path: Path) -> None:
    environment = {"WORKER_BEAT_FILE": str(tmp_path / "beat")}
    assert run(environment).returncode == 0
    done = run(environment, "--ready")
    assert (done.returncode, done.stderr) == (1, "the worker has not started yet\n")
