"""All stories on one kind of database: what `python -m tests.programs.replay_sweep` does in a process
for each.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections import Counter
from collections.abc import Callable

from tests.databases import fresh_databases
from tests.programs.replay_sweep.at_work import stories_at_work, sweep_at_work
from tests.programs.replay_sweep.points import Point, Result
from tests.programs.replay_sweep.stories import STORIES
from tests.programs.replay_sweep.sweep import sweep_story

Row = dict[str, str]


def sweep(options: argparse.Namespace, kind: str) -> list[Row]:
    """Sweep the stories that the options leave on one kind of database; return a row for each point."""
    logging.disable(logging.CRITICAL)  # runs fail on purpose by the hundred; each would be told of
    chance = random.Random(f"{options.seed} {kind}")

    def choose(points: list[Point]) -> list[Point]:
        left = [point for point in points if options.only in str(point)]
        if not options.sample or len(left) <= options.sample:
            return left
        picked = set(chance.sample(range(len(left)), options.sample))
        return [point for number, point in enumerate(left) if number in picked]

    rows: list[Row] = []
    with fresh_databases(kind) as fresh:
        for story in STORIES:
            if options.story in story.name:
                _sweep(rows, kind, story.name, lambda: sweep_story(story, fresh(), choose))  # noqa: B023 - called at once
        for story in stories_at_work():
            if options.story in story.name:
                _sweep(rows, kind, story.name, lambda: sweep_at_work(story, fresh(), choose))  # noqa: B023 - called at once
    return rows


def _sweep(rows: list[Row], kind: str, name: str, play: Callable[[], list[Result]]) -> None:
    began = time.monotonic()
    try:
        results = play()
    except AssertionError as problem:  # one story that cannot be played ends no sweep
        print(f"BROKEN  {kind}  {name}, without a replay\n    {problem}", flush=True)
        whole = {"way": "none", "point": name, "outcome": "BROKEN", "problem": str(problem)}
        rows.append({"database": kind, "story": name, **whole})
        return
    for result in results:
        if result.outcome not in ("held", "refused"):
            print(f"{result.outcome}  {kind}  {result.point}\n    {result.problem}", flush=True)
    counts = Counter(result.outcome for result in results)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"{kind:10}  {time.monotonic() - began:4.0f} s  {name}: {told}", flush=True)
    rows += [
        {
            "database": kind,
            "story": result.point.story.name,
            "way": result.point.way.name,
            "point": str(result.point),
            "outcome": result.outcome,
            "problem": result.problem,
        }
        for result in results
    ]
