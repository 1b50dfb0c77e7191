"""Kills the app with SIGKILL at every point of every step and of every POST, and checks the promises.

`python -m tests.programs.crash_sweep` tries all of them on SQLite and PostgreSQL;
`tests/round_trips/test_crashes.py` tries a sample. Which points a story comes to is found by playing it once.
"""

from tests.programs.crash_sweep.point import Point, declared_points, find_points, try_point
from tests.programs.crash_sweep.promises import PromiseBroken
from tests.programs.crash_sweep.stories import STORIES

__all__ = ["STORIES", "Point", "PromiseBroken", "declared_points", "find_points", "try_point"]
