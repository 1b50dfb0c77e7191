"""The sample of a cross product: each case once, and each way of it with some seed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import DATABASES
from tests.databases import ROOT
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


def test_each_case_of_a_test_is_tried_in_one_way() -> None:
    tests = "tests/round_trips/test_platforms.py"
    whole, sampled = collect(tests, "--whole"), collect(tests)
    assert set(sampled) < set(whole)
    cases = ["away", "limited", "half", "nothing"]
    for chosen, ways in ((whole, 4), (sampled, 1)):
        stumbles = [each for each in chosen if "stumbles" in each]
        assert [sum(case in each for each in stumbles) for case in cases] == [ways] * 4
    assert [each for each in sampled if "receipted" in each]  # without cases: on each platform


def test_each_case_is_tried_on_both_databases_if_the_test_says_so() -> None:
    marked = ("test_what_people_do_is_told", "test_an_offer_is_accepted_by")
    sampled = collect("tests/round_trips/test_remedies.py")
    found = [each for each in sampled if any(name in each for name in marked)]
    assert [sum(kind in each for each in found) for kind in DATABASES] == [5, 5]


def collect(*arguments: str) -> list[str]:
    """Return the tests that pytest collects."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if "::" in line]
