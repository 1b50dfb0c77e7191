"""What a replay will do, said before anybody presses the button: which recorded steps are kept, which run
again, what they reach, and what that comes to as the rows are now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mailagent.domain.operations.rows_now import RowsNow, tell_rows
from mailagent.domain.operations.step_effects import Reach, StepEffect, effect_of


class Recorded(Protocol):
    """A step of a run's history."""

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def error(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A recorded step, and what it would do if it ran again."""

    number: int
    name: str
    failed: bool
    effect: StepEffect


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A replay from step `start`. `may_reach`: what the run may come to after the recorded steps; `facts`:
    sentences about what has happened already and will not happen again."""

    start: int
    kept: tuple[PlannedStep, ...]
    again: tuple[PlannedStep, ...]
    may_reach: frozenset[Reach]
    facts: tuple[str, ...]

    @property
    def reaches(self) -> frozenset[Reach]:
        """Return what the steps that run again reach."""
        return frozenset[Reach]().union(*(step.effect.reaches for step in self.again))


# What a workflow may come to once it goes on, whatever it had recorded.
_MAY_REACH: Mapping[str, frozenset[Reach]] = {
    "conversation": frozenset({Reach.MODEL, Reach.MAIL}),
    "refund": frozenset({Reach.MONEY, Reach.MAIL}),
    "delivery": frozenset({Reach.MAIL}),
}


def plan_replay(
    workflow: str, steps: Sequence[Recorded], start: int, rows: RowsNow | None = None
) -> ReplayPlan:
    """Return what a replay of a run from step `start` does. `rows` is what its row is like now."""
    planned = [
        PlannedStep(step.number, step.name, step.error is not None, effect_of(step.name))
        for step in steps
    ]
    return ReplayPlan(
        start=start,
        kept=tuple(step for step in planned if step.number < start),
        again=tuple(step for step in planned if step.number >= start),
        may_reach=_MAY_REACH.get(workflow, frozenset()),
        facts=() if rows is None else tell_rows(rows),
    )


_AMONG = {
    Reach.MODEL: "the model is asked again, which costs tokens",
    Reach.MAIL: "mail is handed to SendGrid, unless it has been sent",
    Reach.MONEY: "the payment gateway is asked, after looking up what was paid",
}


def tell_reach(plan: ReplayPlan) -> tuple[str, ...]:
    """Return a sentence for each thing outside that the replay reaches, or may come to."""
    told = []
    for reach, words in _AMONG.items():
        if reach in plan.reaches:
            told.append(f"Among the steps that run again: {words}.")
        elif reach in plan.may_reach:
            told.append(f"It may come to this afterwards: {words}.")
    return tuple(told)
