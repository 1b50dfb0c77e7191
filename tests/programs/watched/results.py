"""What one loaded run told."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.programs.watched.board import Target
from tests.programs.watched.compare import Compared


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a query over the run. `gone`: it had ended before the end."""

    name: str
    values: list[float]
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """One query of a panel, and what it yielded."""

    target: Target
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Alert:
    """`was`: each state that it was in, with the seconds since the load began when it came to it. `looks_at`:
    how many series it looks at."""

    name: str
    looks_at: int
    was: dict[str, float]
    expected: str


@dataclass(frozen=True)
class Result:
    """`facts`: versions. `load`: what the shop got. `minutes`: how long the load took, and from
    when until when the model was away."""

    facts: dict[str, str]
    load: dict[str, int]
    minutes: tuple[float, ...]
    panels: list[Shown]
    recorded: dict[str, int]
    alerts: list[Alert]
    compared: list[Compared]
    wrong: list[str] = field(default_factory=list)
