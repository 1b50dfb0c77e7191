"""All stories on one kind of database: `python -m tests.programs.replay_sweep` does this once for each kind."""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.databases import fresh_databases
from tests.programs import proof
from tests.programs.replay_sweep.at_work import stories_at_work, sweep_at_work
from tests.programs.replay_sweep.points import Point, Result
from tests.programs.replay_sweep.stories import STORIES, Story
from tests.programs.replay_sweep.sweep import sweep_story


def sweep_all(options: argparse.Namespace, kind: str) -> proof.Rows:
    """Sweep the stories on one kind of database; return a row for each point."""
    logging.disable(logging.CRITICAL)  # hundreds of runs fail on purpose, and each would be logged
    chance = random.Random(f"{options.seed} {kind}")

    def choose(points: list[Point]) -> list[Point]:
        left = [point for point in points if options.only in str(point)]
        if not options.sample or len(left) <= options.sample:
            return left
        picked = set(chance.sample(range(len(left)), options.sample))
        return [point for number, point in enumerate(left) if number in picked]

    rows: proof.Rows = []
    with fresh_databases(kind) as fresh:
        for play, stories in ((sweep_story, STORIES), (sweep_at_work, stories_at_work())):
            for story in _named(options.only, stories):
                rows += _rows_of(story, kind, partial(play, story, fresh(), choose))
    return rows


def _named(only: str, stories: Sequence[Story]) -> Sequence[Story]:
    """Return the stories that can have points of such a name; a story that is named is played alone."""
    every = [*STORIES, *stories_at_work()]
    if not any(only.startswith(f"{story.name}:") for story in every):
        return stories
    return [story for story in stories if only.startswith(f"{story.name}:")]


def _rows_of(story: Story, kind: str, play: Callable[[], list[Result]]) -> proof.Rows:
    began = time.monotonic()
    try:
        results = play()
    except AssertionError as problem:  # one story that cannot be played ends no sweep
        print(f"BROKEN  {kind}  {story.name}, without a replay\n    {problem}", flush=True)
        whole = {"way": "none", "point": story.name, "outcome": "BROKEN", "problem": str(problem)}
        return [{"database": kind, "story": story.name, **whole}]
    rows = [
        {
            "database": kind,
            "story": story.name,
            "way": result.point.way.name,
            "point": str(result.point),
            "outcome": result.outcome,
            "problem": result.problem,
        }
        for result in results
    ]
    for row in rows:
        if row["outcome"] not in ("held", "refused"):
            print(f"{row['outcome']}  {kind}  {row['point']}\n    {row['problem']}", flush=True)
    counts = proof.count_outcomes(rows)
    print(f"{kind:10}  {time.monotonic() - began:4.0f} s  {story.name}: {counts}", flush=True)
    return rows
