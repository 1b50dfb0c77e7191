"""The run by Inspect AI, which an owner gets, gives what the plain one gives. Opt-in: `INSPECT_PYTHON` names a
Python that has `mailagent/evals/requirements.txt`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.databases import ROOT
from tests.evals.conftest import MEASURE

PYTHON = os.environ.get("INSPECT_PYTHON", "")

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="INSPECT_PYTHON is not set"),
    pytest.mark.timeout(900),
]


def python(folder: Path, *arguments: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "CI": "1"}
    ran = subprocess.run(
        [PYTHON, *arguments], cwd=ROOT, env=environ, text=True, capture_output=True, check=True
    )
    return ran.stdout


def table(folder: Path, *arguments: str) -> list[str]:
    play = ("run", "--suite", str(MEASURE), "--model", "scripted:every_second", "--times", "2")
    told = python(folder, "-m", "mailagent.evals", *play, "--out", str(folder / "run"), *arguments)
    lines = told.partition("\n\n")[2].splitlines()
    # How long a sample takes and how it is written differs: ids are longer or shorter.
    return [line for line in lines if not line.startswith(("seconds", "tokens", str(folder)))]


def test_inspect_ai_gives_the_same_table(tmp_path: Path) -> None:
    for name in ("inspect", "plain"):
        (tmp_path / name).mkdir()
    by_inspect = table(tmp_path / "inspect")
    assert list((tmp_path / "inspect" / "run").glob("*.eval"))
    assert not list((tmp_path / "plain").glob("run/*.eval"))
    assert by_inspect == table(tmp_path / "plain", "--plain")
    assert any(line.startswith("pass^2 %") for line in by_inspect)


SKIPS = """
import json, sys
from pathlib import Path
from mailagent.evals.episode import Agent
from mailagent.evals.inspect_log import play_all
from mailagent.evals.pool import pool
from mailagent.evals.runs import Run
from mailagent.evals.task import read_file

if __name__ == "__main__":
    folder, suite = map(Path, sys.argv[1:])
    tasks = list(read_file(suite))[:2]
    with pool(1, folder / "worlds.log") as worlds:
        agent = Agent("scripted:perfect", {"OPENAI_PRICES": "1,1,1"})
        cost = Run(worlds, agent, folder).play(tasks[0], 1).scores["cost_usd"]
        running = Run(worlds, agent, folder, max_cost_usd=MOST * cost)
        play_all(running, tasks, 2, 1)
    from inspect_ai.log import list_eval_logs, read_eval_log
    (log,) = list_eval_logs(str(folder))
    scores = read_eval_log(log).results.scores
    found = {f"{s.name} {s.reducer}": s.metrics["mean"].value for s in scores}
    print(json.dumps({**found, "skipped": running.skipped}))
"""


@pytest.mark.parametrize(("most", "skipped"), [("2.5", 1), ("9", 0)])
def test_samples_that_are_not_played_leave_the_figures_alone(
    tmp_path: Path, most: str, skipped: int
) -> None:
    script = tmp_path / "skips.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{SKIPS.replace('MOST', most)}", "utf-8"
    )
    told = python(tmp_path, str(script), str(tmp_path), str(MEASURE)).splitlines()[-1]
    found = json.loads(told)
    assert found["skipped"] == skipped
    assert [found["solved mean"], found["solved pass_k_2"]] == [1.0, 1.0]
