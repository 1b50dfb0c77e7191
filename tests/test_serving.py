"""Starting what cannot run: one message that says why, no traceback, and an end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mailagent.demo.process import ROOT
from mailagent.healthcheck import SILENT_SECONDS, find_problem
from tests.ports import choose_port
from tests.processes import Process, ProcessFailed, base_environment

NOBODY_THERE = "postgresql+psycopg://mailagent:secret-17@127.0.0.1:1/mailagent"


def run(*arguments: str, **settings: str) -> tuple[int, str]:
    """Run one of the app's modules to its end; return its exit code and all that it said."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**base_environment(), "SECRET_KEY": "a key for tests only", **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def serve(**settings: str) -> tuple[int, str]:
    bind = f"127.0.0.1:{choose_port()}"
    return run("gunicorn", "-c", "python:mailagent.serving", "wsgi:app", "--bind", bind, **settings)


def test_wrong_settings_are_listed_once_and_gunicorn_ends() -> None:
    code, said = serve(MAILAGENT_ROLE="x", MANAGER_EMAILS="a")
    assert code != 0
    assert said.count("MAILAGENT_ROLE: 'x'") == said.count("MANAGER_EMAILS: 'a'") == 1
    assert "Traceback" not in said


def test_a_database_that_is_not_migrated_is_named(tmp_path: Path) -> None:
    code, said = serve(DATABASE_URL=f"sqlite:///{tmp_path}/empty.db")
    assert code != 0
    assert "run `alembic upgrade head`" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("role", ["all", "worker"])
def test_what_runs_workflows_waits_for_a_server_that_is_away_until_it_is_asked_to_end(
    tmp_path: Path, role: str
) -> None:
    bind = f"127.0.0.1:{choose_port()}"
    arguments = {
        "all": ["gunicorn", "-c", "python:mailagent.serving", "wsgi:app", "--bind", bind],
        "worker": ["flask", "--app", "wsgi", "worker"],
    }
    beat = tmp_path / "beat"  # of the worker before this one
    beat.touch()
    os.utime(beat, (beat.stat().st_atime, beat.stat().st_mtime - SILENT_SECONDS - 5))
    environment = {
        **base_environment(),
        "SECRET_KEY": "a key for tests only",
        "MAILAGENT_ROLE": role,
        "DATABASE_URL": NOBODY_THERE,
        "WORKER_BEAT_FILE": str(beat),
    }
    child = Process(role, arguments[role], environment, tmp_path / "log")
    try:
        child.start()
        child.wait_until(lambda: "Waiting for it." in child.said())
        child.check()
        assert role == "all" or find_problem(environment) is None
        # With 0 and not by the signal, which would not reach the first process of a container.
        os.kill(child.pid, signal.SIGTERM)
        with pytest.raises(ProcessFailed, match=r"ended \(0\)"):
            child.wait_until(lambda: False, 10)
    finally:
        child.stop()
    assert "the database cannot be used" in child.said()
    assert "Traceback" not in child.said()
    assert "secret-17" not in child.said()


def test_a_file_that_cannot_be_there_is_not_waited_for() -> None:
    code, said = serve(DATABASE_URL="sqlite:////no/such/folder/x.db")
    assert code != 0
    assert "the database cannot be used" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (NOBODY_THERE, "the database cannot be used"),
        ("mysql://x", "starts with mysql://; use postgresql+psycopg://"),
        ("nonsense", "cannot be read"),
        ("sqlite:////no/such/folder/x.db", "the database cannot be used"),
    ],
)
def test_migrating_what_cannot_be_migrated_says_why(url: str, words: str) -> None:
    code, said = run("alembic", "upgrade", "head", DATABASE_URL=url)
    assert code != 0
    assert words in said
    assert "Traceback" not in said
    assert "secret-17" not in said
