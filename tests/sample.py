"""A sample of a cross product: each case in one of its ways, chosen by a seed; with `--whole`, in all."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import pytest

Way = TypeVar("Way")

SEED = int(os.environ.get("MAILAGENT_SWEEP_SEED", "1"))


def sample(
    cases: Iterable[str], ways: Sequence[Way], whole: bool, seed: int = SEED
) -> Mapping[str, Sequence[Way]]:
    """Return the ways to try each case in, and print what was chosen. The choice for one case does not depend
    on the others."""
    if whole:
        return dict.fromkeys(cases, ways)
    chosen = {case: [random.Random(f"{seed} {case}").choice(ways)] for case in cases}
    for case, (way,) in chosen.items():
        print(f"seed {seed}: {case} as {way}")  # noqa: T201 - says what was sampled
    return chosen


def keep_one_way(items: Iterable[pytest.Item], seed: int = SEED) -> set[pytest.Item]:
    """Return the tests to run if each case of a parametrized test is tried in one of its ways.

    The ways are the databases of `both_databases` and the values of the fixtures that `one_way` names. A test
    with `both_databases(every_case=True)` runs each case on both.
    """
    cases: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[_case_of(item)].append(item)
    return {random.Random(f"{seed} {ways[0].nodeid}").choice(ways) for ways in cases.values()}


def _case_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the test's name and its parameters but the ways; of a test without others, all."""
    ways = {name for mark in item.iter_markers("one_way") for name in mark.args}
    on_both = item.get_closest_marker("both_databases")
    if on_both and not on_both.kwargs.get("every_case"):
        ways.add("database_url")
    params: Mapping[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
    others = [str(id(value)) for name, value in params.items() if name not in ways]
    return (item.nodeid.partition("[")[0], *others) if ways and others else (item.nodeid,)
