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
from tests.programs.full_run.parts import load_parts
from tests.programs.mutations.bugs import Bug, load_bugs, plant

BUGS = load_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_each_bug_has_its_place_and_its_tests(bug: Bug, tmp_path: Path) -> None:
    copy_with(bug, tmp_path)
    for test in bug.tests:
        file, _, name = test.partition("::")
        called = f"def {name.partition('[')[0]}(" if name else "def test_"
        assert called in (ROOT / file).read_text("utf-8"), test


def test_no_bug_is_one_that_every_test_would_catch(tmp_path: Path) -> None:
    """Names that do not exist keep a program from running at all."""
    for number, bug in enumerate(BUGS):
        copy_with(bug, tmp_path / str(number))
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    command += ["--target-version", "py311", "--select", "F821,F822,F823", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def copy_with(bug: Bug, folder: Path) -> None:
    """Copy the files that a bug is put into, and put it there."""
    for edit in bug.edits:
        place = folder / edit.file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((ROOT / edit.file).read_text("utf-8"), "utf-8")
    plant(bug, folder)


def test_every_promise_has_bugs_and_no_two_have_one_name() -> None:
    assert {bug.promise for bug in BUGS} == set(range(1, 7))
    assert max(Counter(bug.name for bug in BUGS).values()) == 1


def test_no_bug_is_put_where_a_change_does_not_make_its_figures_old() -> None:
    left_out = [
        file for path in load_parts()["deliberate bugs"].leaves_out for file in ROOT.glob(path)
    ]
    changed = [ROOT / edit.file for bug in BUGS for edit in bug.edits]
    assert left_out
    assert [file for file in changed for path in left_out if file.is_relative_to(path)] == []
