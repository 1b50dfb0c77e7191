"""When the loop guard stops automatic answers, and when it cools down."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mailagent.domain.mail.conversation import is_loop
from tests.cast import NOW


@pytest.mark.parametrize(
    ("minutes", "tripped"),
    [
        ([], False),
        ([0], False),
        ([0, 1], False),
        ([0, 1, 2], True),
        ([2, 0, 1], True),
        ([0, 0, 0], True),
        ([0, 30, 59], True),
        ([0, 30, 60], False),
        ([0, 59, 60, 118], True),
        ([0, 30, 60, 90, 120], False),
        ([0, 600, 601, 602, 1400], True),
    ],
)
def test_three_within_any_hour_blow_a_loop_guard_of_three(
    minutes: list[int], tripped: bool
) -> None:
    times = [NOW + timedelta(minutes=minute) for minute in minutes]
    assert is_loop(times, 3) is tripped


def test_a_loop_guard_of_one_blows_at_the_first() -> None:
    assert is_loop([NOW], 1)
    assert not is_loop([], 1)
