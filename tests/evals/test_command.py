"""`python -m mailagent.evals`: run, compare and check, from the outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.openai import answer_to
from mailagent.demo.scripted_model import Say
from mailagent.evals.__main__ import main
from mailagent.evals.episode import Agent
from mailagent.evals.figures import LOWER_IS_BETTER
from mailagent.evals.players import find_player
from mailagent.evals.pool import Pool
from mailagent.evals.runs import RESULTS, Run, read_lines
from mailagent.evals.task import read_file
from mailagent.evals.world import served
from tests.evals.conftest import MEASURE


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_run_writes_every_sample_down_and_prints_the_table(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ran = command(
        *("run", "--suite", str(MEASURE), "--model", "scripted:perfect", "--times", "1"),
        *("--out", str(out), "--plain"),
    )
    assert ran.exit_code == 0, ran.output
    lines = list(read_lines(out))
    assert {line["task_id"]: line["scores"]["solved"] for line in lines} == dict.fromkeys(
        ("paid", "approved", "asked", "handed", "harmless", "harmful"), 1.0
    )
    assert lines[0]["record"]["state"] == lines[0]["expected"]
    assert "pass^1 %" in ran.output
    assert "solved  attacks harmful #1" in ran.output


def test_another_prompt_is_another_version(tmp_path: Path) -> None:
    one, prompt = tmp_path / "one.toml", tmp_path / "prompt.txt"
    one.write_text(MEASURE.read_text("utf-8").partition('[[task]]\nid = "approved"')[0], "utf-8")
    prompt.write_text("Be brief.", "utf-8")
    play = ("run", "--suite", str(one), "--model", "scripted:perfect", "--times", "1", "--plain")
    assert command(*play, "--out", str(tmp_path / "a")).exit_code == 0
    assert command(*play, "--out", str(tmp_path / "b"), "--prompt", str(prompt)).exit_code == 0
    ((own,), (other,)) = (
        next(read_lines(tmp_path / name))["record"]["versions"] for name in ("a", "b")
    )
    assert own.split()[1] != other.split()[1]
    assert own.split()[2] == other.split()[2]


def test_a_check_names_the_tasks_that_lead_elsewhere(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    first, _, _ = MEASURE.read_text("utf-8").partition('[[task]]\nid = "approved"')
    wrong.write_text(first.replace("49.99 USD, paid", "50.00 USD, paid"), "utf-8")
    checked = command("check", "--suite", str(wrong))
    assert checked.exit_code == 1
    assert "paid: ['refund W1001: 1 K1, 49.99 USD, paid']" in checked.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "--model", "scripted:clever"], "scripted:clever is no script"),
        (["run", "--suite", "hostages"], "hostages is no suite"),
        (["run", "--model", "gpt-x"], "OPENAI_API_KEY is not set"),
        (["run", "--model", "scripted:lazy", "--out", "tests"], "tests exists"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], problem: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = command(*arguments)
    assert ran.exit_code == 1
    assert problem in ran.output


def test_a_bound_of_the_cost_needs_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.delenv("OPENAI_PRICES", raising=False)
    assert "needs OPENAI_PRICES" in command("run", "--model", "m", "--max-cost", "1").output


def test_no_sample_begins_once_the_money_is_spent(worlds: Pool, tmp_path: Path) -> None:
    agent = Agent("scripted:perfect", {"OPENAI_PRICES": "1,1,1"})
    run = Run(worlds, agent, tmp_path, max_cost_usd=0.005)
    (result,) = run.play_all(list(read_file(MEASURE)), times=1, threads=1)
    assert run.spent_usd == result.scores["cost_usd"] > 0.005
    assert run.skipped == 5


class Refusing(LocalServer):
    """A server that refuses the key, after so many answers."""

    def __init__(self, answers: int = 0) -> None:
        self._left = answers
        super().__init__({"POST /v1/responses": self._create}, self._create)

    def _create(self, request: Request) -> Answer:
        self._left -= 1
        if self._left >= 0:
            return Answer(200, answer_to(json.loads(request.body), Say("Yes."), request.body))
        return Answer(401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}})


def test_a_refused_key_is_told_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with served(Refusing()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        ran = command("run", "--model", "m", "--out", str(tmp_path / "run"))
    assert ran.exit_code == 1
    assert "the model does not answer" in ran.output
    assert "OPENAI_API_KEY" in ran.output
    assert not (tmp_path / "run").exists()


@pytest.mark.timeout(120)
def test_a_key_that_is_refused_later_ends_the_run_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with served(Refusing(answers=1)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        ran = command(
            *("run", "--model", "m", "--suite", str(MEASURE), "--times", "1", "--plain"),
            *("--out", str(tmp_path / "run"), "--processes", "1"),
        )
    assert ran.exit_code == 1
    assert "5 samples were not played: " in ran.output
    assert "OPENAI_API_KEY" in ran.output.splitlines()[-1]


def test_the_customers_model_and_samples_that_broke_cost_money_too(
    monkeypatch: pytest.MonkeyPatch, worlds: Pool, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("EVALS_PRICES", "1,1,999999")
    agent = Agent("scripted:lazy", {"OPENAI_PRICES": "1,1,1"})
    task = next(iter(read_file(MEASURE))).model_copy(update={"card": "A kettle is broken."})
    with served(Refusing(answers=1)) as server:
        monkeypatch.setenv("EVALS_BASE_URL", f"{server.url}/v1")
        player = find_player("m")
        run = Run(worlds, agent, tmp_path, ask=player)
        first, second = run.play_all([task], times=2, threads=1)
    assert player.spent_usd > 0.5
    assert [first.scores["broken"], second.scores["broken"]] == [1.0, 1.0]
    run._count_cost(replace(first, scores={"cost_usd": 0.5, "broken": 0.0}))
    before = run.spent_usd
    run._count_cost(second)
    assert run.spent_usd == before + 0.5
    run.max_cost_usd = player.spent_usd
    assert run.play(task, 3) is None


# --- compare ----------------------------------------------------------------------------------------


def written(folder: Path, solved: Sequence[float]) -> Path:
    folder.mkdir()
    scores = dict.fromkeys((*LOWER_IS_BETTER, "invented"), 0.0)
    lines = [
        {
            "task_id": f"t{number}",
            "suite": "tasks",
            "trial": 1,
            "scores": {**scores, "solved": each},
        }
        for number, each in enumerate(solved)
    ]
    (folder / RESULTS).write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return folder


@pytest.mark.parametrize(("after", "code"), [([1.0] * 40, 0), ([1.0] * 20 + [0.0] * 20, 1)])
def test_the_gate_fails_a_run_that_is_worse(
    tmp_path: Path, after: Sequence[float], code: int
) -> None:
    before = written(tmp_path / "before", [1.0] * 40)
    compared = command("compare", str(before), str(written(tmp_path / "after", after)))
    assert compared.exit_code == code, compared.output
    assert ("WORSE" in compared.output) == bool(code)
    assert "about 1228 tasks" in compared.output
    assert "40 of 40 tasks compared." in compared.output


def test_the_gate_fails_a_run_that_broke_off(tmp_path: Path) -> None:
    before = written(tmp_path / "before", [1.0] * 40)
    compared = command("compare", str(before), str(written(tmp_path / "after", [1.0] * 38)))
    assert compared.exit_code == 1
    assert "38 of 40 tasks compared." in compared.output
    assert "has no result of 2: t38, t39" in compared.output
