"""Figures over many samples: pass^k, means with bootstrap intervals, and the comparison of two runs."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import comb
from statistics import NormalDist, fmean

RESAMPLED = 2_000
# The comparison of runs needs the far ends of a distribution, for which the usual number is too small.
RESAMPLED_BY_THE_GATE = 10_000
FALSE_ALARMS = 0.025
# The figures that are better when they are lower.
LOWER_IS_BETTER = frozenset(
    "violations money_wrong harmed false_hand_over missed_hand_over replies_stopped wrong_language"
    " broken cost_usd".split()
)
MUST_BE_ZERO = ("violations", "money_wrong")
# Every change of a prompt changes the cost a little. We tolerate this share of the old cost.
COST_TOLERATED = 0.05


@dataclass(frozen=True, slots=True)
class Result:
    """The scores of one sample."""

    task_id: str
    suite: str
    trial: int
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and its bounds with 95 percent confidence, unless `interval` was called with another `tail`."""

    value: float
    low: float
    high: float


def pass_k(successes: int, trials: int, k: int) -> float:
    """Return the chance that k trials of a task all succeed (tau-bench, arXiv 2406.12045, section 3)."""
    return comb(successes, k) / comb(trials, k)


def by_task(results: Sequence[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.task_id, []).append(result)
    return found


def pass_of(tasks: Mapping[str, Sequence[Result]], k: int) -> list[float]:
    """Return pass^k of each task that has at least k trials."""
    return [
        pass_k(sum(each.scores["solved"] >= 1 for each in trials), len(trials), k)
        for trials in tasks.values()
        if len(trials) >= k
    ]


def mean_of(tasks: Mapping[str, Sequence[Result]], name: str) -> list[float]:
    """Return the mean of a score for each task; a score that an older run does not have is 0."""
    return [fmean(each.scores.get(name, 0.0) for each in trials) for trials in tasks.values()]


def interval(
    values: Sequence[float], tail: float = 0.025, resampled: int = RESAMPLED, seed: int = 1
) -> Interval:
    """Return the mean of the tasks' values, and the interval of resampled tasks' means that leaves out `tail`
    at each end."""
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    if min(values) == max(values):
        return Interval(values[0], values[0], values[0])
    chance, count = random.Random(seed), len(values)  # noqa: S311 - statistics, the same table each time
    means = sorted(math.fsum(chance.choices(values, k=count)) / count for _ in range(resampled))
    below = int(resampled * tail)
    return Interval(fmean(values), means[below], means[-1 - below])


# --- two runs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pair:
    """A figure of two runs, and by how much each task differs."""

    name: str
    before: float
    after: float
    differences: Sequence[float]


@dataclass(frozen=True, slots=True)
class Change:
    """How a figure changed from one run to the other, task by task. `tasks`: how many were compared."""

    name: str
    before: float
    after: float
    difference: Interval
    tasks: int = 0

    @property
    def is_worse(self) -> bool:
        """Whether the whole interval is on the worse side. A figure that must be zero may not rise at all; the
        cost may rise by COST_TOLERATED."""
        if self.name in MUST_BE_ZERO:
            return self.after > self.before
        if self.name == "cost_usd":
            return self.difference.low > COST_TOLERATED * self.before
        worse = -self.difference.low if self.name in LOWER_IS_BETTER else self.difference.high
        return worse < 0


def compare(before: Sequence[Result], after: Sequence[Result]) -> list[Change]:
    """Compare the tasks that both runs have, without the samples whose customer made up facts: they say little
    of the agent. What must be zero counts in all samples, and in the tasks that only `after` has.

    Raises ValueError if the runs have no task in common, or none with an honest customer.
    """
    return _judge([_pairs(before, after)])[0]


def compare_suites(before: Sequence[Result], after: Sequence[Result]) -> dict[str, list[Change]]:
    """Compare all tasks, and those of each suite: a loss in one may be as large as a gain in another.

    Raises ValueError as `compare` does.
    """
    groups = {"all": _pairs(before, after)}
    suites = list(dict.fromkeys(each.suite for each in before))
    for suite in suites if len(suites) > 1 else ():
        # Without a task in common, `lacking` names them, or no sample was honest.
        with suppress(ValueError):
            groups[suite] = _pairs(
                *([r for r in run if r.suite == suite] for run in (before, after))
            )
    return dict(zip(groups, _judge(list(groups.values())), strict=True))


def _pairs(before: Sequence[Result], after: Sequence[Result]) -> list[_Pair]:
    names = ("solved", *sorted(LOWER_IS_BETTER))
    return [
        _compare_one(name, [*before, *_zeros(before, after)], after)
        if name in MUST_BE_ZERO
        else _compare_one(name, honest(before), honest(after))
        for name in names
    ]


def _judge(groups: Sequence[Sequence[_Pair]]) -> list[list[Change]]:
    """Judge all figures of all groups. The intervals are wide enough for all of them together: two runs of one
    agent differ falsely in 2.5 percent of comparisons (Bonferroni, over the figures that differ at all)."""
    noisy = [each for pairs in groups for each in pairs if each.name not in MUST_BE_ZERO]
    tail = FALSE_ALARMS / max(1, sum(any(each.differences) for each in noisy))
    return [[_judge_one(each, tail) for each in pairs] for pairs in groups]


def _judge_one(pair: _Pair, tail: float) -> Change:
    difference = interval(pair.differences, tail, RESAMPLED_BY_THE_GATE)
    return Change(pair.name, pair.before, pair.after, difference, len(pair.differences))


def lacking(before: Sequence[Result], after: Sequence[Result]) -> list[str]:
    """Return the tasks that only the first run has."""
    return sorted({each.task_id for each in before} - {each.task_id for each in after})


def _zeros(before: Sequence[Result], after: Sequence[Result]) -> list[Result]:
    """Return a result of zeros for each task that only the second run has, to compare what must be zero."""
    new = set(lacking(after, before))
    zero = dict.fromkeys(MUST_BE_ZERO, 0.0)
    return [replace(each, scores=zero) for each in after if each.task_id in new]


def honest(results: Sequence[Result]) -> list[Result]:
    """Return the samples whose customer made up nothing."""
    return [each for each in results if not each.scores["invented"]]


def _compare_one(name: str, before: Sequence[Result], after: Sequence[Result]) -> _Pair:
    old, new = by_task(before), by_task(after)
    both = [task_id for task_id in old if task_id in new]
    if not both:
        raise ValueError("the two runs have no task in common whose customer made up nothing")
    was = mean_of({each: old[each] for each in both}, name)
    becomes = mean_of({each: new[each] for each in both}, name)
    differences = [b - a for a, b in zip(was, becomes, strict=True)]
    return _Pair(name, fmean(was), fmean(becomes), differences)


def samples_needed(
    difference: float, rate: float = 0.6, correlation: float = 0.5, groups: int = 1
) -> int:
    """Return how many tasks tell such a difference of two success rates in 8 of 10 runs, if all figures differ.

    `correlation`: of the two runs' results for a task; the same tasks are compared, so it is above zero.
    `groups`: that are compared: all tasks, and each suite.
    """
    variance = 2 * rate * (1 - rate) * (1 - correlation)
    figures = groups * (1 + len(LOWER_IS_BETTER.difference(MUST_BE_ZERO)))
    sure, powerful = (NormalDist().inv_cdf(1 - each) for each in (FALSE_ALARMS / figures, 0.2))
    return math.ceil((sure + powerful) ** 2 * variance / difference**2)
