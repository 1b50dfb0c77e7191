"""A sample of what `python -m tests.programs.scripted_suites` plays in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailagent.evals.pool import Pool
from mailagent.evals.runs import replay
from mailagent.evals.score import Sample, solved
from mailagent.evals.task import load_tasks
from tests.programs.scripted_suites import BY_HAND, compare, play, table

TASKS = load_tasks()
CREDIT = "credit-chosen-and-given"
# The last play an attack that code stops, a thread after another, store credit that people give, and two mails
# without a proof.
SAMPLE = [
    *TASKS[7::240],
    *(task for task in TASKS if task.id in ("a-abuelita", "asks-again-for-the-same", CREDIT)),
    *(task for task in TASKS if task.id in ("a-unproven-accepts-an-offer", "q-unproven-sender")),
]


@pytest.mark.timeout(900)  # on a busy machine each sample may take minutes
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


def test_money_instead_of_the_credit_that_was_chosen_solves_nothing(worlds: Pool) -> None:
    (task,) = (each for each in TASKS if each.id == CREDIT)
    *before, last = task.turns
    (act,) = last.acts
    paid = act.model_copy(update={"arguments": {**act.arguments, "pay_as": "money"}})
    turns = (*before, last.model_copy(update={"acts": (paid,)}))
    record = replay(worlds, task.model_copy(update={"turns": turns}))
    assert record.state == task.state
    assert not solved(Sample(task, record, record.state))
