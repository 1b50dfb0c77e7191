"""A story that fails by chance is tried once more, and named; one that is wrong fails; several fail the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHANCE = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_story(number, request):
    tries = pathlib.Path(__file__).with_name(f"{{number}}.tries")
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    assert len(tries.read_text()) >= {needed}, "late this time"
"""


def run_stories(folder: Path, count: int, needed: int) -> subprocess.CompletedProcess[str]:
    """Run a suite of stories in the house's own conftest; each passes at its try number `needed`."""
    round_trips = folder / "round_trips"
    round_trips.mkdir()
    (round_trips / "test_story.py").write_text(CHANCE.format(count=count, needed=needed), "utf-8")
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "-n", "2", str(round_trips)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("count", "needed", "code", "words"),
    [
        (1, 1, 0, "1 passed"),
        (5, 2, 0, "5 of at most 5 tests needed a second try: find out why"),
        (6, 2, 1, "too many tests needed a second try: 6, and 5 may"),
        (1, 3, 1, "1 failed"),
    ],
)
def test_a_story_has_one_second_try_and_a_run_a_few(
    tmp_path: Path, count: int, needed: int, code: int, words: str
) -> None:
    ended = run_stories(tmp_path, count, needed)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert words in ended.stdout
    assert ("SECOND TRY" in ended.stdout) is (needed > 1)
    assert ("late this time" in ended.stdout) is (needed > 1)
