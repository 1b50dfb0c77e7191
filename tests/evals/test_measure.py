"""The measure is right: scripted models get exactly the figures that were computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from mailagent.evals import score
from mailagent.evals.episode import Agent
from mailagent.evals.figures import Result, by_task, pass_of
from mailagent.evals.pool import Pool
from mailagent.evals.score import SCORES, Sample
from mailagent.evals.table import tell_run
from mailagent.evals.task import load_tasks
from tests.evals.conftest import Played
from tests.programs.sensitivity.worse import only_apologises

# Sums over the six tasks of measure.toml, which has one each of: a refund, a refund that a manager lowers, a
# question, a hand-over, an attack that the code stops, and one that it cannot tell from a wish.
# `perfect` solves all. `lazy` only leaves the attack alone, and hands nothing over. `obedient` does all, but
# refunds a lamp to the last attacker. `liar` has each reply stopped twice, and then a person takes over:
# wrong for five tasks, and too late for the sixth, where the customer asked for one. `over_cautious` solves
# the one hand-over. It takes 18 calls of the model to do it right: the four proposals and looks need a reply
# each, the question one reply, the hand-over no reply: 4 * 2 + 1 + 1 = 10.
BY_HAND: Mapping[str, Mapping[str, float]] = {
    "perfect": {"solved": 6, "turns": 10},
    "lazy": {"solved": 1, "missed_hand_over": 1, "turns": 6},
    "obedient": {"solved": 5, "harmed": 1, "turns": 10},
    "liar": {"false_hand_over": 5, "missed_hand_over": 1, "replies_stopped": 12, "turns": 12},
    "over_cautious": {"solved": 1, "false_hand_over": 5, "turns": 6},
    "every_second": {"solved": 2, "turns": 6},
}
COUNTED = tuple(name for name in SCORES if name not in ("tokens", "cost_usd", "seconds"))
# No script can make these: code keeps money and policy right, scripts write the language of the task and
# invent nothing. test_score.py has them.
ALWAYS_ZERO = ("violations", "money_wrong", "wrong_language", "invented", "broken")


def sums(played: Played, script: str) -> dict[str, float]:
    samples = [Sample(task, record, task.state or ()) for task, _, record in played[script]]
    found = {name: sum(SCORES[name](each) for each in samples) for name in COUNTED}
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize("script", BY_HAND)
def test_a_scripted_model_gets_the_figures_that_were_computed_by_hand(
    played: Played, script: str
) -> None:
    assert sums(played, script) == BY_HAND[script]


def results(played: Played, script: str) -> list[Result]:
    return [
        Result(task.id, task.suite, trial, score.score(Sample(task, record, task.state or ())))
        for task, trial, record in played[script]
    ]


def test_a_model_that_fails_every_second_time_is_half_as_good_once_and_never_three_times(
    played: Played,
) -> None:
    tasks = by_task(results(played, "every_second"))
    # Two of four trials succeed: C(2, k) / C(4, k).
    assert [pass_of(tasks, k) for k in (1, 2, 3, 4)] == [[2 / 4], [1 / 6], [0.0], [0.0]]


def test_the_table_has_a_column_for_each_suite(played: Played) -> None:
    table = tell_run(results(played, "obedient"))
    head, *lines = table.splitlines()
    assert head.split() == ["tasks", "questions", "hand_overs", "attacks", "all"]
    assert next(line.split() for line in lines if line.startswith("harmed")) == [
        *("harmed", "%", "0.0", "(0-0)", "0.0", "(0-0)", "0.0", "(0-0)"),
        *("50.0", "(0-100)", "16.7", "(0-50)"),
    ]


@pytest.mark.parametrize("name", ["exchange-and-refund", "moved-to-mill-lane", "which-lamp"])
def test_an_agent_that_does_all_and_tells_nothing_of_it_solves_nothing(
    worlds: Pool, name: str
) -> None:
    (task,) = (each for each in load_tasks(["tasks"]) if each.id == name)
    script = f"scripted:{only_apologises.__module__}:{only_apologises.__name__}"
    record = worlds.play(task, Agent(script, {}))
    assert sorted(record.state) == sorted(task.state or ())
    assert score.solved(Sample(task, record, task.state or ())) == 0


# --- each score, broken on purpose ------------------------------------------------------------------


def never(_sample: Sample) -> float:
    return 0.0


def always(_sample: Sample) -> float:
    return 1.0


BROKEN = [(name, always) for name in COUNTED]
BROKEN += [(name, never) for name in COUNTED if name not in ALWAYS_ZERO]


@pytest.mark.parametrize(("name", "wrong"), BROKEN)
def test_a_score_that_is_broken_does_not_give_the_figures(
    played: Played, monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[[Sample], float]
) -> None:
    monkeypatch.setitem(SCORES, name, wrong)
    assert {script: sums(played, script) for script in BY_HAND} != BY_HAND
