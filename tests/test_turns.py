"""Tests by turns: each on one database, and on the other one the next day."""

from __future__ import annotations

from tests.turns import KINDS, kind_of

NAMES = [f"tests/journeys/test_story.py::test_{number}" for number in range(50)]


def test_a_test_changes_its_database_each_day() -> None:
    assert all({kind_of(name, day) for day in (7, 8)} == set(KINDS) for name in NAMES)


def test_each_day_some_run_on_either() -> None:
    assert {kind_of(name, 7) for name in NAMES} == set(KINDS)
