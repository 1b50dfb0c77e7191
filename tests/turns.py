"""Which of the two databases a long test runs on today: each on one of them, on the other one tomorrow.

`--whole` runs all on both. MAILAGENT_SWEEP_SEED stands for the day.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import Counter
from collections.abc import Sequence

import pytest

KINDS = ("sqlite", "postgresql")
SEED = "MAILAGENT_SWEEP_SEED"


def seed_of_today() -> int:
    """Return the number of the day, or what MAILAGENT_SWEEP_SEED says."""
    return int(os.environ.setdefault(SEED, str(int(time.time()) // 86_400)))


def leave_out_others(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """Return the tests that wait for another day: those by turns whose database is not today's. A test of
    one database only has no turns."""
    by_turns = [item for item in items if item.get_closest_marker("by_turns")]
    both = Counter(_name(item) for item in by_turns if _kind(item))
    return [
        item
        for item in by_turns
        if both[_name(item)] == len(KINDS) and _kind(item) != kind_of(_name(item), seed)
    ]


def _kind(item: pytest.Item) -> str:
    kind = getattr(getattr(item, "callspec", None), "params", {}).get("database_url")
    return kind if kind in KINDS else ""


def _name(item: pytest.Item) -> str:
    kind = _kind(item)
    return item.nodeid.replace(kind, "") if kind else item.nodeid


def kind_of(name: str, seed: int) -> str:
    """Return the database on which the test of this name runs on the day `seed`."""
    return KINDS[(zlib.crc32(name.encode()) + seed) % 2]
