"""Charts of stacked bars, as numbers from which a template draws an SVG picture and a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mailagent.web.language import _, write_number

WIDTH, HEIGHT = 720.0, 200.0
# How much of its space a bar fills.
FILLED = 0.8


@dataclass(frozen=True, slots=True)
class Series:
    """A row of numbers, one for each bar."""

    name: str
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a bar: its position, and the number of its series, from 1."""

    x: float
    y: float
    width: float
    height: float
    series: int


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and its table. `rows` of the table: a label, and a number for each series. `sums`: the sum of
    each series. `facts`: pairs of a label and words to show beside the table. `unit`: what a bar stands for, a
    day or a week; empty in other charts."""

    name: str
    title: str
    series: Sequence[str]
    bars: Sequence[Bar]
    rows: Sequence[tuple[str, Sequence[str]]]
    sums: Sequence[str]
    highest: str
    facts: Sequence[tuple[str, str]] = ()
    unit: str = ""

    @property
    def description(self) -> str:
        """A description of the picture for people who cannot see it."""
        if not self.bars:
            return _("Nothing in these days.")
        sums = ", ".join(
            f"{number} {name}" for name, number in zip(self.series, self.sums, strict=True)
        )
        first, last = self.rows[0][0], self.rows[-1][0]
        return _(
            "Bars from %(first)s to %(last)s. In all %(sums)s; the highest bar is %(highest)s.",
            first=first,
            last=last,
            sums=sums,
            highest=self.highest,
        )


def make_chart(
    name: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    tell: Callable[[int], str] = write_number,
    facts: Sequence[tuple[str, str]] = (),
    unit: str = "",
) -> Chart:
    """Return a chart with a bar for each label, in which the series are stacked. `tell`: writes a number for
    readers."""
    totals = [sum(each.numbers[place] for each in series) for place in range(len(labels))]
    highest = max(totals, default=0)
    return Chart(
        name,
        title,
        [each.name for each in series],
        _bars(series, len(labels), highest) if highest else (),
        [
            (label, [tell(each.numbers[place]) for each in series])
            for place, label in enumerate(labels)
        ],
        [tell(sum(each.numbers)) for each in series],
        tell(highest),
        facts,
        unit,
    )


def _bars(series: Sequence[Series], count: int, highest: int) -> list[Bar]:
    bars, room = [], WIDTH / count
    for place in range(count):
        top = HEIGHT
        for number, each in enumerate(series, start=1):
            height = HEIGHT * each.numbers[place] / highest
            top -= height
            if height:
                x = room * (place + (1 - FILLED) / 2)
                bars.append(
                    Bar(
                        round(x, 1),
                        round(top, 1),
                        round(room * FILLED, 1),
                        round(height, 1),
                        number,
                    )
                )
    return bars
