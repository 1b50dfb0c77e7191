"""A sample of the crash sweep: `python -m tests.programs.crash_sweep` tries every point on both databases.

The points are the same in every run. Set MAILAGENT_SWEEP_SEED to another number to try others.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import mailagent.backtest.shadow  # noqa: F401 - declares its steps
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.harness import open_shop
from tests.programs.crash_sweep.point import Point, declared_points, try_point
from tests.programs.crash_sweep.stories import (
    LEFT_OUT,
    POSTS_LEFT_OUT,
    STORIES,
    find_unmade,
    find_unswept,
)
from tests.sample import SEED

# What a sample has one point of each: money, mail, anything else a run does, and POSTs.
KINDS = {
    "money": {"propose_refund", "claim_refund", "pay_refund", "tell_customer", "look_at_decision"},
    "mail": {"write_reply", "hand_over", "send_mail", "stop_loop", "forward_team_replies"},
    "anything": CRASH_POINTS.keys(),
    "a POST": {post for story in STORIES for post in story.posts},
}
# They need several starts, or wait for something on the clock: one point, of a step that no other
# story comes to.
SLOW = {
    *("left lying", "loop", "what is old goes", "OpenAI away", "expired refund"),
    *("answered by a person", "replayed"),
}
SELDOM = "only in slow stories"
DATABASES = ("sqlite", "postgresql")


def candidates() -> dict[str, list[Point]]:
    """Return the points that each kind's is chosen from."""
    fast = [each for s in STORIES if s.name not in SLOW for each in declared_points(s)]
    slow = [each for s in STORIES if s.name in SLOW for each in declared_points(s)]
    found = {kind: [each for each in fast if each.name in names] for kind, names in KINDS.items()}
    often = {point.name for point in fast}
    return {**found, SELDOM: [point for point in slow if point.name not in often]}


def sampled(seed: int) -> dict[str, tuple[Point, str]]:
    """Return one point of each kind, and its database."""
    chance = random.Random(seed)
    return {
        kind: (chance.choice(points), DATABASES[(seed + number) % 2])
        for number, (kind, points) in enumerate(candidates().items())
    }


SAMPLED = sampled(SEED)


@pytest.mark.parametrize(
    ("point", "database_url"), SAMPLED.values(), indirect=["database_url"], ids=list(SAMPLED)
)
def test_the_promises_hold_after_a_crash(point: Point, database_url: str) -> None:
    print(f"seed {SEED}: {point}")  # noqa: T201 - says what was sampled
    assert try_point(point, database_url), f"{point}: the process did not die there"


def test_some_story_comes_to_every_step() -> None:
    assert find_unswept() == set(), "write a story for it in tests/programs/crash_sweep"
    declared = {step for story in STORIES for step in story.reaches}
    assert declared <= CRASH_POINTS.keys(), "a story names a step that is no more"


def test_every_step_and_post_is_sampled_with_some_seed_on_either_database() -> None:
    points = {point.name for each in candidates().values() for point in each}
    assert points == (CRASH_POINTS.keys() - LEFT_OUT.keys()) | {p for s in STORIES for p in s.posts}
    one, other = sampled(SEED), sampled(SEED + 1)
    assert all({one[kind][1], other[kind][1]} == set(DATABASES) for kind in one)


def test_every_post_is_made_by_a_story_or_left_out_for_a_reason(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    settings = {
        "STRIPE_WEBHOOK_SECRET": "whsec_1",
        "ORDERS_API_TOKEN": "a-token-of-the-shop-for-tests-only",
    }
    with open_shop(tmp_path, f"sqlite:///{migrated_sqlite}", settings) as shop:
        rules = [each for each in shop.app.url_map.iter_rules() if "POST" in (each.methods or ())]
    posts = {f"POST {each.rule}" for each in rules}
    assert find_unmade(posts) == set(), "write a story for it in tests/programs/crash_sweep"
    made = {post for story in STORIES for post in story.posts}
    assert made | POSTS_LEFT_OUT.keys() == posts, "a story or a reason has a POST that is no more"
    assert not made & POSTS_LEFT_OUT.keys()


def test_what_is_left_out_exists_and_no_story_comes_to_it() -> None:
    declared = {step for story in STORIES for step in story.reaches}
    assert LEFT_OUT.keys() <= CRASH_POINTS.keys()
    assert not LEFT_OUT.keys() & declared
    assert all(LEFT_OUT.values())
