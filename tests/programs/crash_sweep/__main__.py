"""`python -m tests.programs.crash_sweep`: sweep, print a line for each point and the counts, exit 1 if
one is bad.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests.databases import Copy, copies
from tests.programs.crash_sweep import report
from tests.programs.crash_sweep.nursery import Nursery
from tests.programs.crash_sweep.point import Found, Point, find_points, try_point
from tests.programs.crash_sweep.report import Result
from tests.programs.crash_sweep.stories import LEFT_OUT, STORIES, find_unswept
from tests.programs.crash_sweep.story import Story
from tests.programs.run_record import this_run


def main() -> int:
    """Sweep; exit with 1 if a promise was broken, a point not reached, a story differs from what it
    declares, no story comes to a step, or nothing was tried."""
    options = _parse_arguments()
    unswept = find_unswept()
    if unswept:
        print(
            f"no story comes to: {', '.join(sorted(unswept))}; write one, or leave it out with a reason"
        )
    for step, why in LEFT_OUT.items():
        print(f"left out: {step}, because {why}")
    began, run = time.monotonic(), this_run()
    nursery = Nursery()
    results: list[Result] = []
    for kind in options.database or ("sqlite", "postgresql"):
        with copies(kind) as copy:
            results += _sweep(kind, copy, nursery, options)
    nursery.close()
    if options.json:
        report.write_json(options.json, results, run)
    report.print_summary(results, options.seed, time.monotonic() - began)
    if not report.are_any_tried(results):
        print("nothing was tried: no point has such a name")
        return 1
    return 1 if unswept or any(result.is_bad for result in results) else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.programs.crash_sweep", description=__doc__
    )
    parser.add_argument("--sample", type=int, help="so many points of each database, by chance")
    parser.add_argument("--only", default="", help="points whose name has this in it")
    parser.add_argument(
        "--first-only",
        action="store_true",
        help="not the second time, and so on, that a story comes to a point",
    )
    parser.add_argument("--jobs", type=int, default=3, help="points tried at the same time")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    return parser.parse_args()  # fmt: skip


def _sweep(
    kind: str, copy: Copy, nursery: Nursery, options: argparse.Namespace
) -> Iterator[Result]:
    with ThreadPoolExecutor(options.jobs) as jobs:
        wanted = []
        for found in jobs.map(partial(_find, kind, copy, nursery), _stories(options.only)):
            if isinstance(found, Result):
                yield _told(found)
                continue
            if found.wrong:
                yield _told(Result(kind, found.story.name, "", "", "differs", 0, found.wrong))
            wanted += [point for point in found.points if _is_wanted(point, options)]
        if options.sample:
            wanted = random.Random(options.seed).sample(wanted, min(options.sample, len(wanted)))
        trying = [jobs.submit(_try, kind, copy, nursery, point) for point in wanted]
        for tried in as_completed(trying):
            yield _told(tried.result())


def _stories(only: str) -> Sequence[Story]:
    """Return the stories that can have points of such a name: one that is named is played alone."""
    named = [story for story in STORIES if only and only.split(":", maxsplit=1)[0] in story.name]
    return named or STORIES


def _is_wanted(point: Point, options: argparse.Namespace) -> bool:
    return options.only in str(point) and (point.number == 1 or not options.first_only)


def _find(kind: str, copy: Copy, nursery: Nursery, story: Story) -> Found | Result:
    began = time.monotonic()
    try:
        with copy() as url:
            return find_points(story, url, nursery)
    except Exception as problem:  # noqa: BLE001 - one story that cannot be played ends no sweep
        took = time.monotonic() - began
        return Result(kind, story.name, "", "", "BROKEN", took, _say(problem))


def _try(kind: str, copy: Copy, nursery: Nursery, point: Point) -> Result:
    began, why = time.monotonic(), ""
    try:
        held = _holds(copy, nursery, point) or _holds(copy, nursery, point)
        outcome = "held" if held else "not reached"
    except Exception as problem:  # noqa: BLE001 - a database that is gone is a point that did not hold
        outcome, why = "BROKEN", _say(problem)
    took = time.monotonic() - began
    return Result(kind, point.story.name, point.name, point.spot, outcome, took, why)


def _holds(copy: Copy, nursery: Nursery, point: Point) -> bool:
    """Try a point; say whether it was reached. Time may have kept a story from it once, not twice."""
    with copy() as url:
        return try_point(point, url, nursery)


def _say(problem: Exception) -> str:
    return str(problem) if isinstance(problem, AssertionError) else repr(problem)


def _told(result: Result) -> Result:
    print(result, flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
