"""The tasks have as many acts of each kind as the tasks of the public retail benchmark, and more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from mailagent.evals.task import load_tasks

# Of the 114 acts there these tools can do 78: refunds and hand-overs, cancelled orders, exchanges of what was
# delivered or is still to be sent, other addresses.
MONEY_OR_PEOPLE = 30
BENCHMARK = {
    "propose_refund": MONEY_OR_PEOPLE,
    "cancel_order": 14,
    "exchange": 26,
    "change_address": 8,
}


def count_acts(*suites: str) -> Counter[str]:
    """Count the acts of some suites by the tool, or by the kind of change that is asked for."""
    return Counter(
        str(act.arguments.get("kind", act.tool))
        for task in load_tasks()
        if task.suite in suites
        for turn in task.turns
        for act in turn.acts
    )


def short_of(wanted: dict[str, int], found: Counter[str]) -> Collection[str]:
    return [kind for kind, count in wanted.items() if found[kind] < count]


def test_there_are_as_many_acts_of_each_kind_as_in_the_public_benchmark() -> None:
    assert short_of(BENCHMARK, count_acts("tasks")) == []


def test_there_are_as_many_hand_overs_beside_the_refunds() -> None:
    # How many of the 30 are which is not known here, so there are as many of each; tasks that end with people
    # have suites of their own.
    found = count_acts("tasks", "hand_overs", "questions", "attacks")
    assert short_of({"hand_over": MONEY_OR_PEOPLE}, found) == []
