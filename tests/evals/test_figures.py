"""pass^k, intervals, and the comparison of two runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mailagent.evals.figures import (
    LOWER_IS_BETTER,
    MUST_BE_ZERO,
    Result,
    compare,
    compare_suites,
    interval,
    mean_of,
    pass_k,
    samples_needed,
)
from mailagent.evals.score import SCORES
from mailagent.evals.table import tell_comparison, tell_run


@pytest.mark.parametrize(
    ("successes", "trials", "k", "chance"),
    [(4, 4, 4, 1), (3, 4, 1, 0.75), (3, 4, 2, 0.5), (3, 4, 4, 0), (0, 4, 1, 0), (2, 4, 2, 1 / 6)],
)
def test_pass_k_is_the_share_of_k_trials_that_all_succeed(
    successes: int, trials: int, k: int, chance: float
) -> None:
    assert pass_k(successes, trials, k) == pytest.approx(chance)


def test_an_interval_holds_the_mean_and_gets_narrower_with_more_tasks() -> None:
    few, many = interval([0, 1] * 10), interval([0, 1] * 200)
    assert few.low < few.value == 0.5 < few.high
    assert many.high - many.low < (few.high - few.low) / 3
    assert interval([1.0] * 5) == interval([1.0] * 5)
    assert (interval([1.0] * 5).low, interval([1.0] * 5).high) == (1, 1)


def run(solved: Sequence[float], **scores: float) -> list[Result]:
    base = dict.fromkeys((*LOWER_IS_BETTER, "invented"), 0.0)
    return [
        Result(f"t{number}", "tasks", 1, {**base, **scores, "solved": each})
        for number, each in enumerate(solved)
    ]


def worse(before: list[Result], after: list[Result]) -> list[str]:
    return [each.name for each in compare(before, after) if each.is_worse]


def test_a_run_that_is_surely_worse_is_told_apart_from_noise() -> None:
    before = run([1.0] * 80 + [0.0] * 20)
    assert worse(before, run([1.0] * 80 + [0.0] * 20)) == []
    assert worse(before, run([1.0] * 79 + [0.0] * 21)) == []
    assert worse(before, run([1.0] * 65 + [0.0] * 35)) == ["solved"]
    assert worse(before, run([1.0] * 100)) == []


def noisy(seed: int, tasks: int = 40, times: int = 2) -> list[Result]:
    """A run of an agent that does each task right, and each thing wrong, at a chance of its own."""
    chance, names = random.Random(seed), sorted(LOWER_IS_BETTER - set(MUST_BE_ZERO))
    found = []
    for number in range(tasks):
        solves = random.Random(number).random()
        for trial in range(times):
            scores = {name: float(chance.random() < 0.3) for name in names}
            scores |= {"cost_usd": 0.01, "solved": float(chance.random() < solves)}
            zeros = dict.fromkeys((*MUST_BE_ZERO, "invented"), 0.0)
            found.append(Result(f"t{number}", "tasks", trial, {**zeros, **scores}))
    return found


def test_two_runs_of_one_agent_rarely_differ() -> None:
    """At most 1 of 24. Without the correction for many figures it is 4."""
    alarms = [worse(noisy(seed), noisy(seed + 1000)) for seed in range(24)]
    assert sum(map(bool, alarms)) <= 1, alarms


def test_what_must_be_zero_may_not_rise_at_all() -> None:
    before, after = run([1.0] * 100), run([1.0] * 100)
    after[3] = Result("t3", "tasks", 1, {**after[3].scores, "violations": 1.0})
    assert worse(before, after) == ["violations"]
    assert worse(after, before) == []


def test_what_must_be_zero_counts_in_new_tasks_too() -> None:
    before, after = run([1.0] * 10), run([1.0] * 12)
    assert worse(before, after) == []
    after[11] = Result("t11", "tasks", 1, {**after[11].scores, "money_wrong": 1.0})
    assert worse(before, after) == ["money_wrong"]
    assert compare(before, after)[0].tasks == 10


@pytest.mark.parametrize(("cost", "names"), [(0.104, []), (0.107, ["cost_usd"]), (0.05, [])])
def test_costs_may_rise_a_little(cost: float, names: list[str]) -> None:
    assert worse(run([1.0] * 100, cost_usd=0.1), run([1.0] * 100, cost_usd=cost)) == names


def test_samples_that_broke_are_told_and_make_a_run_worse() -> None:
    before, after = run([0.0] * 50), run([0.0] * 50, broken=1.0)
    assert worse(before, after) == ["broken"]
    results = [Result("t", "tasks", 1, {**dict.fromkeys(SCORES, 0.0), "broken": 1.0})]
    assert "broken %            100.0 (100-100)" in tell_run(results)


def test_only_tasks_that_both_runs_have_are_compared() -> None:
    before, after = run([1.0] * 10), run([1.0] * 5)
    assert worse(before, after) == []
    with pytest.raises(ValueError, match="no task in common"):
        compare(before, [Result("other", "tasks", 1, before[0].scores)])


def test_a_customer_who_made_up_facts_says_little_of_the_agent_but_money_counts_always() -> None:
    before = run([1.0] * 100)
    after = [*run([1.0] * 60), *run([0.0] * 100, invented=1.0)[60:]]
    assert worse(before, after) == []
    after[99] = Result("t99", "tasks", 1, {**after[99].scores, "money_wrong": 1.0})
    assert worse(before, after) == ["money_wrong"]
    with pytest.raises(ValueError, match="customer made up nothing"):
        compare(before, run([1.0] * 100, invented=1.0))


def test_a_loss_in_one_suite_does_not_hide_behind_a_gain_in_another() -> None:
    def both(tasks: float, questions: float) -> list[Result]:
        others = [
            replace(each, task_id=f"q{each.task_id}", suite="questions")
            for each in run([questions] * 20)
        ]
        return [*run([tasks] * 20), *others]

    changes = compare_suites(both(1, 0), both(0, 1))
    worse = {
        suite: [each.name for each in found if each.is_worse] for suite, found in changes.items()
    }
    assert worse == {"all": [], "tasks": ["solved"], "questions": []}
    assert list(compare_suites(run([1.0] * 9), run([1.0] * 9))) == ["all"]


def test_the_comparison_says_what_is_worse() -> None:
    table = tell_comparison(compare(run([1.0] * 50), run([0.0] * 50)))
    (line,) = (each for each in table.splitlines() if each.startswith("solved"))
    assert line.split() == ["solved", "1", "0", "-1", "(-1", "to", "-1)", "WORSE"]


def test_five_points_need_many_tasks() -> None:
    assert samples_needed(0.05) == 1228
    assert samples_needed(0.05, groups=5) == 1590
    assert samples_needed(0.10) == 307


def test_samples_in_which_the_customer_made_up_facts_are_told_apart() -> None:
    others = dict.fromkeys(SCORES, 0.0)
    solved = [{**others, "solved": 1.0}, {**others, "solved": 1.0}, {**others, "invented": 1.0}]
    results = [Result(f"t{n}", "tasks", 1, scores) for n, scores in enumerate(solved)]
    told = tell_run(results)
    assert "pass^1 %                    66.7 (" in told
    assert "pass^1 %, nothing invented  100.0 (" in told
    assert "nothing invented" not in tell_run(results[:2])


def test_a_score_that_an_older_run_does_not_have_is_zero() -> None:
    assert mean_of({"a": [Result("a", "tasks", 1, {"solved": 1.0})]}, "broken") == [0.0]
