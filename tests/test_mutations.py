"""The list of deliberate bugs follows the code. Whether each is caught: `python -m
tests.programs.mutations`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mailagent.app import ROOT
from tests.programs.mutations.bugs import Bug, load_bugs, plant

BUGS = load_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_each_bug_has_its_place_and_its_tests(bug: Bug, tmp_path: Path) -> None:
    for edit in bug.edits:
        place = tmp_path / edit.file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((ROOT / edit.file).read_text("utf-8"), "utf-8")
    plant(bug, tmp_path)
    assert find_nonsense(tmp_path) == ""
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text("utf-8"), test


def find_nonsense(folder: Path) -> str:
    """Return what says of programs that they cannot run at all: any test would catch a bug in them."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    command += ["--target-version", "py311", "--select", "F821,F822,F823", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_every_promise_has_bugs_and_no_two_have_one_name() -> None:
    assert {bug.promise for bug in BUGS} == set(range(1, 7))
    assert max(Counter(bug.name for bug in BUGS).values()) == 1
