"""The tasks have as many acts of each kind as the tasks of the public retail benchmark, and more."""

from __future__ import annotations

from collections import Counter

from mailagent.evals.task import load_tasks

# Of the 114 acts there these tools can do 78: refunds and hand-overs, cancelled orders, exchanges of what was
# delivered or is still to be sent, other addresses.
BENCHMARK = {"refund": 30, "cancel": 14, "exchange": 26, "change_address": 8}
KINDS = {"propose_refund": "refund", "hand_over": "refund", "cancel_order": "cancel"}


def test_there_are_as_many_acts_of_each_kind_as_in_the_public_benchmark() -> None:
    acts = [
        act
        for task in load_tasks()
        if task.suite == "tasks"
        for turn in task.turns
        for act in turn.acts
    ]
    found = Counter(KINDS.get(act.tool) or str(act.arguments.get("kind")) for act in acts)
    assert {kind: found[kind] >= count for kind, count in BENCHMARK.items()} == dict.fromkeys(
        BENCHMARK, True
    )
