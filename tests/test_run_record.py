"""The tables of the proofs say of which commit they are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs import crash_table, run_record
from tests.programs.mutations.table import table as table_of_bugs
from tests.programs.replay_sweep.table import table as table_of_replays


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_changed_program_is_told_from_its_commit_and_a_changed_document_is_not(
    tmp_path: Path,
) -> None:
    assert run_record.this_run(tmp_path)["commit"] == "unknown"
    for name in (*run_record.PROGRAM, "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("as it was")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "First")
    commit = git(tmp_path, "rev-parse", "--short", "HEAD")
    (tmp_path / "docs" / "file").write_text("a table")
    assert run_record.this_run(tmp_path)["commit"] == commit
    (tmp_path / "tests" / "new").write_text("")
    assert run_record.this_run(tmp_path)["commit"] == f"{commit} + changes"


RUN = {"commit": "1a2b3c4", "date": "2026-07-30"}
LATER = {"commit": "5d6e7f8 + changes", "date": "2026-07-31"}
ROW = {"database": "sqlite", "story": "a story", "name": "send_mail", "way": "fork"} | {
    **dict.fromkeys(("bug", "hurts", "caught_by"), "this"), "promise": "1", "outcome": "held"
}  # fmt: skip


@pytest.mark.parametrize("table", [crash_table.table, table_of_replays, table_of_bugs])
def test_each_table_names_the_commits_and_days_of_its_results(table: Callable[[Any], str]) -> None:
    both = "Run at commit 1a2b3c4, 2026-07-30; commit 5d6e7f8 + changes, 2026-07-31."
    assert both in table([ROW | LATER, ROW | RUN, ROW | RUN])
    assert "a commit that was not recorded" in table([ROW])
