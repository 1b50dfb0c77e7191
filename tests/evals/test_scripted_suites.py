"""A sample of what `python -m tests.programs.scripted_suites` plays in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailagent.evals.pool import Pool
from mailagent.evals.task import load_tasks
from tests.programs.scripted_suites import BY_HAND, compare, play, table

TASKS = load_tasks()
# The last play an attack that code stops, a thread after another, and two mails without a proof.
SAMPLE = [
    *TASKS[7::240],
    *(task for task in TASKS if task.id in ("a-abuelita", "asks-again-for-the-same")),
    *(task for task in TASKS if task.id in ("a-unproven-accepts-an-offer", "q-unproven-sender")),
]


@pytest.mark.parametrize("script", BY_HAND)
def test_each_sample_gives_what_is_computed_by_hand(
    worlds: Pool, tmp_path: Path, script: str
) -> None:
    results = play(worlds, script, SAMPLE, tmp_path / "run")
    rows = list(compare(script, SAMPLE, results))
    assert {row["outcome"] for row in rows} == {"as by hand"}, rows
    assert sum(row["samples"] for row in rows) == len(SAMPLE)


def test_another_figure_is_told(worlds: Pool, tmp_path: Path) -> None:
    tasks = [task for task in SAMPLE if task.id == "a-abuelita"]
    results = play(worlds, "perfect", tasks, tmp_path / "run")
    (row,) = compare("liar", tasks, results)
    assert row["wrong"] == {
        "a-abuelita #1": {"solved": 1, "false_hand_over": 0, "replies_stopped": 0}
    }
    assert "**wrong**" in table([row])
