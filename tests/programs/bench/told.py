"""What a part of the benchmark tells: its table for people, its figures for programs, and how far its
aims were met. An aim is never asserted: figures depend on the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure beside what it should be: at most `limit`, or `at_least`."""

    what: str
    figure: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def line(self) -> str:
        return line_of(self.data())

    def data(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {
            "what": self.what,
            "figure": self.figure,
            "unit": self.unit,
            "limit": self.limit,
            "at_least": self.at_least,
            "met": self.met,
        }


def line_of(aim: Mapping[str, Any]) -> str:
    """Return an aim's `data` as people read it."""
    unit = f" {aim['unit']}" if aim["unit"] else ""
    wanted = f"aim {'≥' if aim['at_least'] else '≤'} {aim['limit']:g}{unit}"
    return (
        f"{aim['what']}: {aim['figure']:.2f}{unit}, {wanted}: {'met' if aim['met'] else 'missed'}"
    )


@dataclass(frozen=True, slots=True)
class Told:
    """`table`: lines for people. `wrong`: what should not have happened, such as mail without an answer."""

    table: str
    figures: dict[str, Any]
    aims: list[Aim] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        return "\n".join([self.table, "", *(aim.line() for aim in self.aims), *self.wrong])

    def data(self) -> dict[str, Any]:
        """Return everything as plain JSON data; `text` is what people read."""
        return {
            "figures": self.figures,
            "aims": [aim.data() for aim in self.aims],
            "wrong": self.wrong,
            "table": self.table,
        }


def render_lines(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and figures."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    return "\n".join(f"{name:<{width}}  {figure}" for name, figure in listed)
