"""What the replay sweep does with points that time keeps a customer from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from tests.programs.replay_sweep.points import Point, Result
from tests.programs.replay_sweep.sweep import MOST_TRIES, Sweep


class _Missing(Sweep):
    """A sweep that misses its second point so many times."""

    def __init__(self, misses: int) -> None:
        self._misses = misses
        self.tries = 0

    def _try(self, points: Sequence[Point]) -> list[Result]:
        self.tries += 1
        missed = SECOND if self.tries <= self._misses else None
        return [Result(point, "not reached" if point is missed else "held") for point in points]


FIRST, SECOND = cast(Point, "the first"), cast(Point, "the second")


@pytest.mark.parametrize(
    ("misses", "tries", "outcome"),
    [(0, 1, "held"), (MOST_TRIES - 1, MOST_TRIES, "held"), (MOST_TRIES, MOST_TRIES, "not reached")],
)
def test_a_missed_point_is_tried_again_and_has_one_result(
    misses: int, tries: int, outcome: str
) -> None:
    sweep = _Missing(misses)
    results = sweep.try_all([FIRST, SECOND])
    assert [(each.point, each.outcome) for each in results] == [(FIRST, "held"), (SECOND, outcome)]
    assert sweep.tries == tries
