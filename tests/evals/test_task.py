"""Files of tasks: what they say is read, and what is wrong is told with the task's id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mailagent.app import ROOT
from mailagent.evals.task import Task, TaskProblem, Turn, load_tasks, read_file

ONE = """
[[task]]
id = "one"
sender = "ada@example.com"
[[task.turns]]
mail = "Hello"
acts = [{ tool = "propose_refund", order_id = "W1", items = ["K1", "M1:2"], reason = "damaged" }]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "some.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_suite_is_the_folder_and_items_are_written_in_short(tmp_path: Path) -> None:
    (task,) = read_file(written(tmp_path, ONE))
    assert (task.suite, task.state) == (tmp_path.name, None)
    assert task.turns[0].acts[0].arguments["items"] == [
        {"item_id": "K1", "quantity": None},
        {"item_id": "M1", "quantity": 2},
    ]


@pytest.mark.parametrize("key", sorted({*Task.model_fields, *Turn.model_fields}))
def test_the_guide_names_every_key(key: str) -> None:
    guide = (ROOT / "docs" / "evals.md").read_text("utf-8")
    assert re.search(rf"`{key}`|^{key} = |^\[\[task\.{key}\]\]", guide, re.MULTILINE)


def test_a_change_is_written_in_short(tmp_path: Path) -> None:
    short = '[{ tool = "request_change", order_id = "W1", kind = "exchange", items = ["K1"] }]'
    (task,) = read_file(written(tmp_path, ONE.partition("acts")[0] + f"acts = {short}"))
    assert task.turns[0].acts[0].arguments == {
        "order_id": "W1",
        "kind": "exchange",
        "items": [{"item_id": "K1", "quantity": None}],
        "reason": "changed_mind",
        "wish": None,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[task]", "some.toml"),
        ("[[taks]]\nid = 'x'", "taks is not known"),
        (
            ONE + "[[task]]\nid = 'two'\nsender = 'b'\nturns = []\nlanguag = 'de'\n",
            "'two'.*languag",
        ),
        (ONE + "[[task]]\nid = 'two'\nsender = 'b'\nturns = []\nlanguage = 'xx'\n", "'two'"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TaskProblem, match=f"(?s){problem}"):
        list(read_file(written(tmp_path, text)))


def test_an_id_stands_for_one_task(tmp_path: Path) -> None:
    with pytest.raises(TaskProblem, match="two tasks have the id one"):
        load_tasks([str(written(tmp_path, ONE + ONE))])


def test_a_suite_that_is_not_there_is_told() -> None:
    with pytest.raises(TaskProblem, match="hostages is no suite"):
        load_tasks(["hostages"])
