"""One point at which a story's app is killed: how points are found, and how one is tried."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailagent.demo.crash_point import AROUND_COMMIT, TRACE
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.programs.crash_sweep.promises import PromiseBroken, check
from tests.programs.crash_sweep.shop import SweptShop
from tests.programs.crash_sweep.stories import LEFT_OUT
from tests.programs.crash_sweep.story import EVENTS, Story, fewest
from tests.programs.crash_sweep.sweep_stories import HOUSEKEEPING, SWEEP

LOG_SHOWN = 3000
ROW_SHOWN = 300  # of a row: what steps returned has words of mails in it

# How often a story comes to these is decided by time: how many reports of mails come together, how often
# a wake-up wakes or a wait ends. So many visits are tried; of all else, every one.
MOST_VISITS = {
    EVENTS: 1,
    **dict.fromkeys((*SWEEP, *HOUSEKEEPING, "look_at_decision", "look_at_delivery"), 2),
}

# Pages that read runs: DBOS's client commits after reading, too.
_READ_WITH_DBOS = ("GET /ops/runs/", "GET /ops/conversations/")


@dataclass(frozen=True)
class Point:
    """The `number`-th time that a story comes to `at` of `name`, which is a step or a POST's rule."""

    story: Story
    name: str
    at: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.story}: {self.name}, {self.spot}"

    @property
    def spot(self) -> str:
        """Where in the step or POST, and which time if not the first."""
        return f"{self.at}, time {self.number}" if self.number > 1 else self.at

    @property
    def crash_at(self) -> str:
        return f"{self.name}:{self.at}:{self.number}"


def declared_points(story: Story) -> list[Point]:
    """Return the first of each kind of point that a story says it comes to, without playing it."""
    steps = [(step, at) for step in sorted(story.reaches) for at in CRASH_POINTS[step]]
    steps = [point for point in steps if ":".join(point) not in story.passes_by]
    posts = [(rule, at) for rule in sorted(story.posts) for at in AROUND_COMMIT]
    return [Point(story, name, at) for name, at in steps + posts]


@dataclass(frozen=True)
class Found:
    """The points that a story comes to, and what is wrong with the story itself, in words, if anything."""

    story: Story
    points: list[Point]
    wrong: str


def find_points(story: Story, database_url: str) -> Found:
    """Return every point that a story comes to: it is played once, and nobody is killed.

    Raises PromiseBroken where the story itself, without a death, breaks a promise.
    """
    with _swept(story, database_url, story) as shop:
        _play(shop, story, TRACE, shop.trace)
        return points_of(story, shop.trace.read_text().splitlines())


def points_of(story: Story, trace: Iterable[str]) -> Found:
    """Return the points in a trace, which has a line `<name>:<at>` for each time, declared or not."""
    points, wrong = [], []
    for line, times in Counter(trace).items():
        name, _, at = line.rpartition(":")
        if name.startswith(_READ_WITH_DBOS) or name in LEFT_OUT:
            continue
        if name.startswith("GET"):
            wrong.append(f"decided by who may: {name} has committed something")
        elif name in story.reaches or name not in SWEEP | HOUSEKEEPING:  # else the schedule woke it
            last = min(times, MOST_VISITS.get(name, times))
            points += [Point(story, name, at, number) for number in range(1, last + 1)]
    declared = {(point.name, point.at) for point in declared_points(story)}
    differing = declared ^ {(point.name, point.at) for point in points}
    if differing:
        wrong.append(f"what it declares and what it comes to differ: {sorted(differing)}")
    return Found(story, points, "; ".join(wrong))


def try_point(point: Point, database_url: str) -> bool:
    """Crash at a point and check; return whether the process really died there.

    Raises PromiseBroken, or AssertionError when something never happened.
    """
    with _swept(point.story, database_url, point) as shop:
        _play(shop, point.story, point.crash_at, shop.marker)
        return shop.marker.exists()


def _play(shop: SweptShop, story: Story, crash_at: str, marker: Path) -> None:
    with shop.open():
        if story.prepare:
            shop.start()
            story.prepare(shop)
            shop.stop()
        shop.start(MAILAGENT_CRASH_AT=crash_at, MAILAGENT_CRASH_ONCE=str(marker))
        story.play(shop)
        for person, count in story.mails.items():
            shop.wait_for_mails(person, fewest(count))
        shop.wait_for_quiet()
        check(shop, story)


@contextmanager
def _swept(story: Story, database_url: str, what: object) -> Iterator[SweptShop]:
    folder = Path(tempfile.mkdtemp(prefix="mailagent-sweep-"))
    shop = SweptShop(story, folder, database_url)
    try:
        yield shop
    except AssertionError as problem:
        log = shop.log.read_text(errors="replace")[-LOG_SHOWN:] if shop.log.exists() else ""
        raise PromiseBroken(
            f"{what}: {problem}\n--- the app's log ends:\n{log}\n--- the rows:\n{describe(shop)}"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def describe(shop: SweptShop) -> str:
    """Return the rows that may say what was waited for: the log of the app rarely does."""
    lines = []
    for table in (
        *("conversations", "inbound_mails", "refunds", "refund_payments", "outbound_mails"),
        *("breakers", "workers", f"{shop.dbos}workflow_status", f"{shop.dbos}operation_outputs"),
    ):
        found = shop.rows(f"SELECT * FROM {table}")
        lines += [table, *(f"    {dict(row._mapping)}"[:ROW_SHOWN] for row in found)]
    return "\n".join(lines)
