"""The result of one part of the benchmark: its table, and how far its aims were met."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure beside what it should be: at most `limit`, or `at_least`. It is never asserted: figures depend
    on the machine."""

    what: str
    figure: float
    limit: float
    unit: str
    at_least: bool = False

    def line(self) -> str:
        met = self.figure >= self.limit if self.at_least else self.figure <= self.limit
        unit = f" {self.unit}" if self.unit else ""
        wanted = f"aim {'≥' if self.at_least else '≤'} {self.limit:g}{unit}"
        return f"{self.what}: {self.figure:.2f}{unit}, {wanted}: {'met' if met else 'missed'}"


@dataclass(frozen=True, slots=True)
class Measured:
    """`wrong`: what should not have happened, such as mail without an answer."""

    table: str
    aims: list[Aim]
    wrong: list[str] = field(default_factory=list)


def unanswered(count: int) -> list[str]:
    """Return what is wrong if so many mails were left without an answer."""
    return [f"{count} mails were not answered"] if count else []


def ratio_of(one: float | None, other: float | None) -> float | None:
    """Return how many times the other a figure is; None if there is nothing to compare with."""
    return one / other if one is not None and other else None


def render_lines(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and figures."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    return "\n".join(f"{name:<{width}}  {figure}" for name, figure in listed)
