"""Replay finished, failed and waiting runs from every step, in every way: `python -m tests.replay_sweep`.

Prints a line for each point at which a promise was broken, and the counts of each story; exits with 1 if
there was one.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.databases import fresh_databases
from tests.replay_sweep.at_work import stories_at_work, sweep_at_work
from tests.replay_sweep.points import Point, Result
from tests.replay_sweep.stories import STORIES
from tests.replay_sweep.sweep import sweep_story

Row = dict[str, str]


def main() -> int:
    """Sweep; exit with 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="only so many points of each story, by chance")
    parser.add_argument("--only", default="", help="only points whose name has this in it")
    parser.add_argument("--story", default="", help="only stories whose name has this in it")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    options = parser.parse_args()
    # The SDKs would ask a proxy for servers of this machine, too.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    logging.disable(logging.CRITICAL)  # runs fail on purpose by the hundred; each would be told of
    chance = random.Random(options.seed)

    def choose(points: list[Point]) -> list[Point]:
        left = [point for point in points if options.only in str(point)]
        if not options.sample or len(left) <= options.sample:
            return left
        picked = set(chance.sample(range(len(left)), options.sample))
        return [point for number, point in enumerate(left) if number in picked]

    rows: list[Row] = []
    for kind in options.database or ("sqlite", "postgresql"):
        with fresh_databases(kind) as fresh:
            for story in STORIES:
                if options.story in story.name:
                    _sweep(rows, kind, story.name, lambda: sweep_story(story, fresh(), choose))  # noqa: B023 - called at once
            for story in stories_at_work():
                if options.story in story.name:
                    _sweep(rows, kind, story.name, lambda: sweep_at_work(story, fresh(), choose))  # noqa: B023 - called at once
    print(f"\nseed {options.seed}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(row["outcome"] == "BROKEN" for row in rows) else 0


def _sweep(rows: list[Row], kind: str, name: str, play: Callable[[], list[Result]]) -> None:
    began = time.monotonic()
    results = play()
    for result in results:
        if result.outcome == "BROKEN":
            print(f"BROKEN  {kind}  {result.point}\n    {result.problem}", flush=True)
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


if __name__ == "__main__":
    sys.exit(main())
