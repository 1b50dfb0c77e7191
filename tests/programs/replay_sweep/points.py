"""Points of the sweep: which run of a story is replayed, from which step, in which way. The runs and the
steps are found by playing the story once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mailagent.engine.run import Run
from tests.harness import Harness
from tests.programs.replay_sweep.acts import Customer
from tests.programs.replay_sweep.stories import Story
from tests.programs.replay_sweep.ways import WAYS, Way


@dataclass(frozen=True, slots=True)
class Point:
    """`run` is a label such as `refund 1`: the first run of that workflow in the customer's story."""

    story: Story
    run: str
    step: int
    step_name: str
    way: Way

    def __str__(self) -> str:
        where = "" if self.way.whole else f" from step {self.step} ({self.step_name})"
        return f"{self.story.name}: {self.way.name}, {self.run}{where}"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a point: `held`, `refused`, `not reached` or `BROKEN`, with what was wrong."""

    point: Point
    outcome: str
    problem: str = ""


def runs_of(harness: Harness, customer: Customer) -> dict[str, Run]:
    """Return the runs of a customer's story, forks left out, by label; with their steps."""
    rows = harness.rows(
        "SELECT conversation_id FROM conversations WHERE customer_email = :e ORDER BY opened_at",
        e=customer.email,
    )
    workflow_client = harness.live.workflow_client
    found = {
        run.run_id: run
        for row in rows
        for run in workflow_client.runs.list_runs(subject=row.conversation_id, limit=500)
        if run.forked_from is None
    }
    labelled: dict[str, Run] = {}
    for run in sorted(found.values(), key=lambda each: (each.created_at, each.run_id)):
        number = sum(label.startswith(f"{run.workflow} ") for label in labelled) + 1
        whole = workflow_client.runs.find_run(run.run_id, with_steps=True)
        assert whole is not None
        labelled[f"{run.workflow} {number}"] = whole
    return labelled


def points_of(story: Story, runs: dict[str, Run], ways: Sequence[Way] = WAYS) -> Iterator[Point]:
    """Return every point of a story, the last steps first: an early cut shortens a history."""
    for label, run in runs.items():
        for way in ways:
            if not (way.at_work if run.is_active else way.ended):
                continue
            steps = run.steps[:1] if way.whole else run.steps[::-1]
            for step in steps:
                yield Point(story, label, step.number, step.name, way)
