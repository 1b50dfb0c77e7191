"""One trial: a copy of the program with one bug in it, and the tests that must notice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.bugs import ROOT, Bug, BugMisplacedError, plant

PATIENCE_SECONDS = 900
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.db", "*.db-*", "node_modules"
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a bug: `caught` by a test, `survived`, or `not tried`, with the reason."""

    bug: Bug
    outcome: str
    caught_by: str
    seconds: float
    said: str = ""


@contextmanager
def snapshot() -> Iterator[Path]:
    """Give a copy of the program as it is now: whoever goes on working on it disturbs no trial."""
    with tempfile.TemporaryDirectory(prefix="mailagent-bugs-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        yield tree


def try_bug(bug: Bug, tree: Path) -> Verdict:
    """Plant a bug in a copy of the program in `tree`, and run its tests until one fails."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mailagent-bug-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(tree, copy)
        try:
            plant(bug, copy)
        except BugMisplacedError as problem:
            return Verdict(bug, "not tried", "", 0.0, str(problem))
        outcome, caught_by, said = run_tests(bug.tests, copy)
    return Verdict(bug, outcome, caught_by, time.monotonic() - began, said)


def run_tests(tests: tuple[str, ...], root: Path) -> tuple[str, str, str]:
    """Run tests of the program under `root`; return the outcome, the test that failed, and the last that
    pytest said."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=short"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *tests],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "not tried", "", f"its tests took longer than {PATIENCE_SECONDS} s"
    if done.returncode == 0:
        return "survived", "", ""
    failed = _FAILED.search(done.stdout)
    said = (done.stdout + done.stderr)[-2000:]
    # 1: tests failed. Anything else means that they were not run, which catches nothing.
    if done.returncode != 1 or failed is None:
        return "not tried", "", said
    return "caught", failed[1], said
