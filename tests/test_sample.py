"""The sample of a cross product: each case once, and each way of it with some seed."""

from __future__ import annotations

import pytest

from tests.sample import sample

CASES, WAYS = ("a page", "another", "a third"), ("light", "dark")


def test_each_case_is_tried_in_one_way_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = sample(CASES, WAYS, whole=False, seed=7)
    assert [len(ways) for ways in chosen.values()] == [1, 1, 1]
    assert chosen == sample(CASES, WAYS, whole=False, seed=7)
    assert f"seed 7: a page as {chosen['a page'][0]}" in capsys.readouterr().out


def test_every_way_comes_with_some_seed_and_all_with_the_whole() -> None:
    seeds = [sample(CASES, WAYS, whole=False, seed=seed) for seed in range(20)]
    for case in CASES:
        assert {each[case][0] for each in seeds} == set(WAYS)
    assert sample(CASES, WAYS, whole=True) == dict.fromkeys(CASES, WAYS)
