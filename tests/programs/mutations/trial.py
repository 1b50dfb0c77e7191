"""One trial: a copy of the program with one bug in it, and the tests that must notice. They must first
pass without it: what fails anyway, or cannot be set up, catches nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from mailagent.app import ROOT
from tests.programs.mutations.bugs import Bug, BugMisplacedError, plant

PATIENCE_SECONDS = 900
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.db", "*.db-*", "node_modules"
)
# Not ERROR: a fixture that cannot be set up, or a test that is not found, notices no bug.
_FAILED = re.compile(r"^FAILED (tests/.+?)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a bug: `caught` by a test, `survived`, or `not tried`. `said`: how the test failed, or
    why it was not tried."""

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


class Trials:
    """Trials of bugs in copies of the program in `tree`; may be used by several threads."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._unharmed: dict[tuple[str, ...], tuple[str, str, str]] = {}
        self._one_at_a_time: dict[tuple[str, ...], Lock] = defaultdict(Lock)

    def try_bug(self, bug: Bug) -> Verdict:
        """Plant a bug in a copy, and run its tests until one fails, which they must not without the bug."""
        began = time.monotonic()
        outcome, failed, said = self.try_unharmed(bug.tests)
        if outcome != "survived":
            said = f"without the bug: {failed} {said}"
            return Verdict(bug, "not tried", "", time.monotonic() - began, said)
        began = time.monotonic()
        with _copy_of(self._tree) as copy:
            try:
                plant(bug, copy)
            except BugMisplacedError as problem:
                return Verdict(bug, "not tried", "", 0.0, str(problem))
            outcome, caught_by, said = run_tests(bug.tests, copy)
        return Verdict(bug, outcome, caught_by, time.monotonic() - began, said)

    def try_unharmed(self, tests: tuple[str, ...]) -> tuple[str, str, str]:
        """Run tests as `run_tests` does, without a bug; once, however often it is asked."""
        with self._one_at_a_time[tests]:
            if tests not in self._unharmed:
                with _copy_of(self._tree) as copy:
                    self._unharmed[tests] = run_tests(tests, copy)
        return self._unharmed[tests]


@contextmanager
def _copy_of(tree: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mailagent-bug-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(tree, copy)
        yield copy


def run_tests(tests: tuple[str, ...], root: Path) -> tuple[str, str, str]:
    """Run tests of the program under `root`; return the outcome, the test that failed, and how, or the last
    that pytest said."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=short"]
    command += ["--force-reruns", "0"]  # one failure is what is looked for
    # Wide enough for pytest to say in its last lines how a test failed.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "250"}
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
    return "caught", failed[1], failed[2] or ""
