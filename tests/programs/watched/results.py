"""What one loaded run told, as it is kept in a file, put into the page and drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.programs.watched.answers import Point
from tests.programs.watched.compare import Compared


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a query, over the run; times in seconds since the load began. `gone`: it had ended
    before the end."""

    name: str
    points: list[Point]
    gone: bool = False

    @property
    def values(self) -> list[float]:
        return [value for _, value in self.points]


@dataclass(frozen=True, slots=True)
class Shown:
    """One query of a panel, and what it yielded."""

    title: str
    kind: str
    unit: str
    most: float | None
    query: str
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
    """`facts`: date, commit, versions. `load`: what the shop got. `seconds`: those of the load, of when the
    model was away, and of the whole."""

    facts: dict[str, str]
    load: dict[str, int]
    seconds: dict[str, float]
    panels: list[Shown]
    recorded: dict[str, int]
    alerts: list[Alert]
    compared: list[Compared]
    wrong: list[str] = field(default_factory=list)
