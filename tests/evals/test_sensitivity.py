"""A sample of what `python -m tests.programs.sensitivity` plays in full."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mailagent.evals.pool import Pool
from tests.programs.sensitivity.__main__ import Trials, table
from tests.programs.sensitivity.worse import CHANGES
from tests.sample import SEED

BY_NAME = {change.name: change for change in CHANGES}
# Each is about at least four tasks: fewer than that could be chance.
SAMPLE = ("prompt: no word of people", "policy: the window ends a day early", "other phrases")


def test_the_gate_notices_what_is_worse_and_nothing_else(
    worlds: Pool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = request.config.getoption("whole")
    for name in SAMPLE if whole else [random.Random(SEED).choice(SAMPLE)]:
        print(f"seed {SEED}: {name}")  # noqa: T201 - says what was sampled
        folder = tmp_path / name
        folder.mkdir()
        row = Trials(worlds, folder, most=5, jobs=2, others=1).try_change(BY_NAME[name])
        assert row["outcome"] == "right", row


def test_there_are_twenty_worsenings_and_five_other_changes() -> None:
    assert [sum(each.is_worse for each in CHANGES), len(CHANGES)] == [20, 25]
    assert len(BY_NAME) == 25


def test_the_table_names_a_wrong_verdict() -> None:
    row = {"change": "c", "tasks": 9, "noticed_by": [], "outcome": "wrong"}
    assert "| c | 9 | – **wrong** |" in table([row])
    assert "Verdicts: 1 wrong." in table([row])
