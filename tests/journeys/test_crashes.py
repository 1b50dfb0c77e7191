"""A sample of the crash sweep: `python -m tests.crash_sweep` tries every point on both databases.

Other points each day; the seed is printed. Set MAILAGENT_SWEEP_SEED to try the same points again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.crash_sweep import STORIES, Point, declared_points, try_point
from tests.crash_sweep.nursery import Nursery
from tests.crash_sweep.stories import LEFT_OUT, find_unswept

SEED = int(os.environ.get("MAILAGENT_SWEEP_SEED", str(int(time.time()) // 86_400)))

# What a sample has one point of each: money, mail, anything else a run does, and POSTs.
KINDS = {
    "money": {"propose_refund", "claim_refund", "pay_refund", "tell_customer", "look_at_decision"},
    "mail": {"write_reply", "hand_over", "send_mail", "stop_loop", "forward_team_replies"},
    "anything": CRASH_POINTS.keys(),
    "a POST": {post for story in STORIES for post in story.posts},
}
# They need several starts, or wait for something on the clock.
SLOW = {"left lying", "loop", "what is old goes", "OpenAI away", "expired refund"}


def sampled() -> dict[str, Point]:
    """Return one point of each kind, other ones each day."""
    chance = random.Random(SEED)
    points = [each for s in STORIES if s.name not in SLOW for each in declared_points(s)]
    return {
        kind: chance.choice([point for point in points if point.name in names])
        for kind, names in KINDS.items()
    }


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    opened = Nursery()
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_promises_hold_after_a_crash(kind: str, database_url: str, nursery: Nursery) -> None:
    point = sampled()[kind]
    print(f"seed {SEED}: {point}")  # noqa: T201 - says what was sampled
    assert try_point(point, database_url, nursery), f"{point}: the process did not die there"


def test_some_story_comes_to_every_step() -> None:
    assert find_unswept() == set(), "write a story for it in tests/crash_sweep"
    declared = {step for story in STORIES for step in story.reaches}
    assert declared <= CRASH_POINTS.keys(), "a story names a step that is no more"


def test_a_step_without_a_story_is_noticed() -> None:
    assert "ask_model" in find_unswept(
        story for story in STORIES if "ask_model" not in story.reaches
    )


def test_what_is_left_out_exists_and_no_story_comes_to_it() -> None:
    declared = {step for story in STORIES for step in story.reaches}
    assert LEFT_OUT.keys() <= CRASH_POINTS.keys()
    assert not LEFT_OUT.keys() & declared
    assert all(LEFT_OUT.values())


def test_stories_have_names_of_their_own() -> None:
    assert len({story.name for story in STORIES}) == len(STORIES)
