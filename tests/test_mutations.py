"""The list of deliberate bugs follows the code. Whether each is caught: `python -m
tests.programs.mutations`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.programs.mutations.bugs import ROOT, Bug, BugMisplacedError, Edit, load_bugs, plant
from tests.programs.mutations.trial import Trials

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


@pytest.mark.parametrize("text", ["put = mail_id", "if True:", "from now import"])
def test_a_name_or_a_syntax_that_is_none_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("mail = 1\n")
    assert find_nonsense(tmp_path) == ""
    (tmp_path / "program.py").write_text(f"{text}\n")
    assert "program.py" in find_nonsense(tmp_path)


def test_every_promise_has_bugs_and_no_two_have_one_name() -> None:
    assert {bug.promise for bug in BUGS} == set(range(1, 7))
    assert max(Counter(bug.name for bug in BUGS).values()) == 1


@pytest.mark.parametrize("text", ["nothing of it", "twice twice"])
def test_a_bug_without_a_place_is_not_planted(text: str, tmp_path: Path) -> None:
    place = tmp_path / "program.py"
    place.write_text(text)
    edit = Edit("program.py", "twice", "once")
    with pytest.raises(BugMisplacedError, match="not once"):
        plant(Bug("a bug", 1, "", (edit,), ()), tmp_path)
    assert place.read_text() == text


PROGRAM = """
import pytest

whole = True


@pytest.fixture
def needs_it():
    assert whole, "cannot be set up"


def test_that_notices():
    assert whole


def test_that_cannot_run(needs_it):
    pass


def test_that_never_passes():
    assert False
"""


@pytest.mark.parametrize(
    ("test", "outcome", "said"),
    [
        ("test_that_notices", "caught", "assert False"),
        ("test_that_cannot_run", "not tried", "cannot be set up"),
        ("test_that_never_passes", "not tried", "test_that_never_passes assert False"),
    ],
)
def test_only_a_test_that_passes_without_the_bug_and_fails_with_it_catches_it(
    test: str, outcome: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_program.py").write_text(PROGRAM)
    edit = Edit("tests/test_program.py", "whole = True", "whole = False")
    bug = Bug("a bug", 1, "", (edit,), (f"tests/test_program.py::{test}",))
    verdict = Trials(tmp_path).try_bug(bug)
    assert verdict.outcome == outcome
    assert said in verdict.said
