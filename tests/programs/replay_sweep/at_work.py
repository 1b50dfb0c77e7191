"""Runs that are replayed while the original still runs: it is stopped in the middle of a step, goes on when
the replay has done what it can, and finds that it is not alone. On PostgreSQL two processes share the runs."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from mailagent.engine.run import Run
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.harness import Harness, wait_until
from tests.programs.replay_sweep.acts import Customer, forget_absences
from tests.programs.replay_sweep.holding import Holding
from tests.programs.replay_sweep.neighbour import second_worker
from tests.programs.replay_sweep.points import Point, Result, runs_of
from tests.programs.replay_sweep.rest import SWEEP_EVERY_SECONDS, list_busy, wake_again
from tests.programs.replay_sweep.stories import STORIES, Kind, Story
from tests.programs.replay_sweep.sweep import Choose, Sweep, open_harness
from tests.programs.replay_sweep.ways import WAYS
from tests.workflows.trouble import is_sqlite

# How long the others may take while the original stands still. Less than a mail's outcome is waited for.
HELD_SECONDS = 2.0
AT_WORK = "at work"

_WAYS = tuple(way for way in WAYS if way.at_work and way.name != "enqueue again")


@dataclass(frozen=True, slots=True)
class HeldPoint(Point):
    """A point at which the original stands at `at` of step `held` meanwhile."""

    held: str = ""
    at: str = ""

    def __str__(self) -> str:
        where = "" if self.way.whole else f" from step {self.step}"
        return (
            f"{self.story.name}: {self.way.name}, {self.run}{where}, held at {self.held} {self.at}"
        )


def stories_at_work() -> tuple[Story, ...]:
    """Return the stories whose runs are held: they end as they do without a replay."""
    settings = {"MAIL_OUTCOME_SECONDS": "12"}  # as in `sweep`: longer than a busy machine takes
    return tuple(
        replace(story, name=f"{story.name}, {AT_WORK}", kind=Kind.FAILED, settings=settings)
        for story in STORIES
        if story.name in ("small refund", "approved refund")
    )


def sweep_at_work(story: Story, database_url: str, choose: Choose) -> list[Result]:
    """Hold the runs of a story at the points that `choose` leaves of all, and replay them meanwhile."""
    with ExitStack() as stack:
        harness = stack.enter_context(open_harness(story, database_url))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mailagent-held-")))
        if not is_sqlite(harness):
            stack.enter_context(second_worker(harness, folder))
        holding = Holding(folder)
        stack.callback(holding.watch())
        sweep = HeldSweep(harness, story, holding)
        stack.callback(sweep.close)
        points = choose(list(sweep.find_held_points()))
        groups = itertools.groupby(points, lambda point: (point.run, point.held, point.at))  # type: ignore[attr-defined]  # all of them are HeldPoint
        return [result for _, group in groups for result in sweep.try_held(list(group))]


class HeldSweep(Sweep):
    """The same, with originals that stand still meanwhile."""

    def __init__(self, harness: Harness, story: Story, holding: Holding) -> None:
        super().__init__(harness, story)
        self._holding = holding

    def find_held_points(self) -> Iterator[Point]:
        """Play the story once; return, for each point of each step, the ways to replay its run from the
        start and from that very step."""
        (customer,) = self._play(1)
        self._raise_if_broken()
        for label, run in runs_of(self._harness, customer).items():
            seen = set()
            for step in run.steps:
                if step.name in seen or step.name not in CRASH_POINTS:
                    continue
                seen.add(step.name)
                for at in CRASH_POINTS[step.name]:
                    if at != "recorded":
                        yield from self._ways_of(label, step.number, step.name, at)

    def _ways_of(self, label: str, number: int, name: str, at: str) -> Iterator[Point]:
        for way in _WAYS:
            for start in (1,) if way.whole else sorted({1, number}):
                yield HeldPoint(self._story, label, start, name, way, name, at)

    def try_held(self, points: Sequence[Point]) -> list[Result]:
        """Hold the runs of as many customers as there are points, replay each, and let all go on."""
        forget_absences(self._harness)
        customers = [Customer(next(self._numbers)) for _ in points]
        self._stock(customers)
        here = points[0]
        assert isinstance(here, HeldPoint)
        workflow, _, _ = here.run.partition(" ")
        self._holding.arm(workflow, here.held, here.at)
        with ThreadPoolExecutor(1) as people:
            going_on = people.submit(self._act, self._story.acts, customers)
            replayed = self._replay_held(list(zip(customers, points, strict=True)))
            self._holding.release()
            while not going_on.done():
                wake_again()
                wait([going_on], SWEEP_EVERY_SECONDS)
            going_on.result()
        self._settle(customers)
        self._bring_on(customers)
        self._check(customers)
        outcomes = [
            Result(point, "BROKEN", self._broken[customer])
            if customer in self._broken
            else Result(point, "held" if tried else "refused")
            for customer, point, tried in zip(customers, points, replayed, strict=True)
        ]
        self._broken.clear()
        return outcomes

    def _replay_held(self, here: Sequence[tuple[Customer, Point]]) -> list[bool]:
        """Replay each of these while its original stands still; return whether each was let."""
        # A customer may have two, and another none yet.
        wait_until(
            lambda: all(self._find_held(customer) for customer, _ in here),
            60,
            "the runs to be held",
        )
        held = set(self._holding.list_held())
        replayed = [
            point.way.try_on(self._hands, self._find_held(customer)[0], point.step)
            for customer, point in here
        ]
        self._wait_a_moment(lambda: not set(list_busy(self._harness)) - held)
        return replayed

    def _find_held(self, customer: Customer) -> list[Run]:
        held = self._holding.list_held()
        return [run for run in runs_of(self._harness, customer).values() if run.run_id in held]

    @staticmethod
    def _wait_a_moment(condition: Callable[[], bool]) -> None:
        """Wait for a condition that need not come: a replay may have to wait for the original."""
        deadline = time.monotonic() + HELD_SECONDS
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
