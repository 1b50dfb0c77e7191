"""Kill the app with SIGKILL at every point of every step and POST, on SQLite and PostgreSQL, and check the
promises after each.

Prints a line for each point, and the counts. Exits with 1 if a promise was broken, a point was not reached, a
story differs from what it declares, no story comes to a step, or nothing was tried.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial

from tests.databases import Copy, copies
from tests.programs import proof
from tests.programs.crash_sweep.point import Found, Point, find_points, try_point
from tests.programs.crash_sweep.promises import CHECKS
from tests.programs.crash_sweep.stories import LEFT_OUT, STORIES, find_unswept
from tests.programs.crash_sweep.story import Story

STORIES_NAMED = 3


@dataclass(frozen=True)
class Result:
    """The outcome of a point: `held`, `not reached` or `BROKEN`. Without a `name` it is that of a story played
    whole: `BROKEN`, or `differs` from what it declares, and its points are swept all the same."""

    database: str
    story: str
    name: str
    at: str
    outcome: str
    seconds: float
    why: str = ""

    def __str__(self) -> str:
        where = f"{self.name}, {self.at}" if self.name else "played whole"
        line = (
            f"{self.database:10}  {self.outcome:11}  {self.seconds:5.1f} s  {self.story}: {where}"
        )
        return f"{line}\n{self.why}" if self.why else line


def main() -> int:
    """Sweep as the command line says."""
    options = _parse_arguments()
    unswept = find_unswept()
    if unswept:
        print(f"no story comes to: {', '.join(sorted(unswept))}")
    for step, why in LEFT_OUT.items():
        print(f"left out: {step}, because {why}")
    began = time.monotonic()
    results: list[Result] = []
    for kind in options.database or proof.DATABASES:
        with copies(kind) as copy:
            results += _sweep(kind, copy, options)
    rows = [asdict(result) for result in results]
    proof.write_results(options.json, rows)
    print(f"\nseed {options.seed}, {time.monotonic() - began:.0f} seconds")
    print(f"checked after each: {', '.join(CHECKS)}")
    print(proof.count_points(rows))
    bad = [result for result in results if result.outcome != "held"]
    for result in bad:
        print(f"{result.outcome}: {result.database}, {result.story}: {result.name}, {result.at}")
    tried = any(result.name for result in results)
    return 0 if tried and not bad and not unswept else 1


def _parse_arguments() -> argparse.Namespace:
    parser = proof.sweep_options("crash_sweep", __doc__)
    parser.add_argument(
        "--first-only",
        action="store_true",
        help="each point of a story once, however often it comes",
    )
    parser.add_argument("--jobs", type=int, default=4, help="points tried at the same time")
    parser.add_argument(
        "--share",
        type=_parse_share,
        default=(1, 1),
        metavar="K/N",
        help="every Nth story, from the Kth on: N commands with each K sweep all",
    )
    return parser.parse_args()


def _parse_share(text: str) -> tuple[int, int]:
    number, slash, shares = text.partition("/")
    if not (slash and number.isdecimal() and shares.isdecimal() and 0 < int(number) <= int(shares)):
        raise argparse.ArgumentTypeError(f"{text}: write K/N with 1 <= K <= N, such as 2/4")
    return int(number), int(shares)


def _sweep(kind: str, copy: Copy, options: argparse.Namespace) -> Iterator[Result]:
    with ThreadPoolExecutor(options.jobs) as jobs:
        wanted = []
        for found in jobs.map(partial(_find, kind, copy), _stories(options)):
            if isinstance(found, Result):
                yield _printed(found)
                continue
            if found.wrong:
                name = found.story.name
                yield _printed(Result(kind, name, "", "", "differs", 0, found.wrong))
            wanted += [point for point in found.points if _is_wanted(point, options)]
        if options.sample:
            wanted = random.Random(options.seed).sample(wanted, min(options.sample, len(wanted)))
        trying = [jobs.submit(_try, kind, copy, point) for point in wanted]
        for tried in as_completed(trying):
            yield _printed(tried.result())


def _stories(options: argparse.Namespace) -> Sequence[Story]:
    """Return the share of the stories that can have points of the wanted name; a story that is named is played
    alone."""
    wanted = options.only.partition(":")[0]
    named = [story for story in STORIES if wanted and wanted in story.name]
    number, shares = options.share
    return (named or STORIES)[number - 1 :: shares]


def _is_wanted(point: Point, options: argparse.Namespace) -> bool:
    return options.only in str(point) and (point.number == 1 or not options.first_only)


def _find(kind: str, copy: Copy, story: Story) -> Found | Result:
    began = time.monotonic()
    try:
        with copy() as url:
            return find_points(story, url)
    except Exception as problem:  # noqa: BLE001 - one story that cannot be played ends no sweep
        took = time.monotonic() - began
        return Result(kind, story.name, "", "", "BROKEN", took, _say(problem))


def _try(kind: str, copy: Copy, point: Point) -> Result:
    began, why = time.monotonic(), ""
    try:
        # Time may keep a story from a point once, but not twice.
        outcome = "held" if _holds(copy, point) or _holds(copy, point) else "not reached"
    except Exception as problem:  # noqa: BLE001 - a database that is gone is a point that did not hold
        outcome, why = "BROKEN", _say(problem)
    took = time.monotonic() - began
    return Result(kind, point.story.name, point.name, point.spot, outcome, took, why)


def _holds(copy: Copy, point: Point) -> bool:
    with copy() as url:
        return try_point(point, url)


def _say(problem: Exception) -> str:
    return str(problem) if isinstance(problem, AssertionError) else repr(problem)


def _printed(result: Result) -> Result:
    print(result, flush=True)
    return result


def table(rows: proof.Rows) -> str:
    """Return a row for each step and POST: the stories that come to it, and on each database at how many points
    the app was killed there. Anything but `held` is named."""
    kinds = sorted({row["database"] for row in rows})
    lines = [f"| killed in | stories | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for name in sorted({row["name"] for row in rows}, key=lambda name: (" " in name, name)):
        here = [row for row in rows if row["name"] == name]
        cells = (
            proof.count_outcomes(row for row in here if row["database"] == kind).removesuffix(
                " held"
            )
            for kind in kinds
        )
        shown = f"`{name}`" if name else "a story, played whole"
        lines.append(f"| {shown} | {_name_stories(here)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", proof.count_points(rows)])


def _name_stories(rows: proof.Rows) -> str:
    names = sorted({row["story"] for row in rows})
    more = len(names) - STORIES_NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:STORIES_NAMED])} and {more} more"


if __name__ == "__main__":
    sys.exit(main())
