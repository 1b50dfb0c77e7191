"""Draws the panels of the dashboard as small charts, one beside the other, from what Prometheus told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain, pairwise

from tests.programs.watched.results import Line, Shown

WIDTH, MARGIN, GAP, COLUMNS = 820, 14, 26, 2
CELL = (WIDTH - 2 * MARGIN - GAP) / COLUMNS
AXIS, PLOT, HEAD, FOOT, ROW = 42, 104, 30, 22, 16
TOP, BELOW = 44, 16
_LETTER = 6.1  # about as wide as a letter of the legend is
_MOST_NAMED = 8
# Lines that lie upon each other are still told apart.
_DASHES = ("", "7 4", "2 3")


@dataclass(frozen=True, slots=True)
class Look:
    """Colours of one theme; each line's has a contrast of at least 4.5 to the ground."""

    ground: str
    text: str
    small: str
    grid: str
    band: str
    lines: tuple[str, ...]


LIGHT = Look(
    *("#ffffff", "#1f2937", "#4b5563", "#e5e7eb", "#fde8c8"),
    ("#0b5cad", "#b3400a", "#047857", "#57534e", "#b0126a", "#6d28d9", "#0e6b80", "#4a6b0a"),
)
DARK = Look(
    *("#111827", "#e5e7eb", "#a8b0bd", "#374151", "#4a3410"),
    ("#7ab8ff", "#fbab5e", "#5fd6a4", "#d6d3d1", "#f79ac6", "#c4b0ff", "#67d5e8", "#b7dd6a"),
)


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel. `named`: the lines to draw and name; `rest`: what is said of the others."""

    title: str
    unit: str
    most: float
    named: Sequence[Line]
    rest: str = ""
    rows: Sequence[Sequence[tuple[int, str]]] = field(default=())


def draw(panels: Sequence[Shown], seconds: dict[str, float], look: Look) -> str:
    """Return every panel over time as one picture. `seconds`: as a result has them."""
    charts = [chart_of(group) for group in grouped(panels)]
    lines = [charts[at : at + COLUMNS] for at in range(0, len(charts), COLUMNS)]
    parts: list[str] = []
    y = float(MARGIN + TOP)
    for line in lines:
        for column, chart in enumerate(line):
            parts += _chart(chart, MARGIN + column * (CELL + GAP), y, seconds, look)
        y += HEAD + PLOT + FOOT + ROW * max(len(chart.rows) for chart in line) + BELOW
    return "\n".join([*_head(y, seconds, look), *parts, "</svg>", ""])


def grouped(panels: Sequence[Shown]) -> list[list[Shown]]:
    """Return the panels that are shown over time, each with all its queries."""
    over_time = [each for each in panels if each.kind == "timeseries"]
    titles = dict.fromkeys(each.title for each in over_time)
    return [[each for each in over_time if each.title == title] for title in titles]


def chart_of(group: Sequence[Shown]) -> Chart:
    """Return what is drawn of a panel: lines that are always 0 are only counted, if there are others."""
    lines = list(chain.from_iterable(each.lines for each in group))
    moving = [line for line in lines if any(line.values)]
    still = [line for line in lines if not any(line.values)]
    if not moving and len(still) == 1:
        moving, still = still, []
    largest = sorted(moving, key=lambda line: -max(line.values))[:_MOST_NAMED]
    named = [line for line in moving if line in largest]
    unnamed = len(moving) - len(named)
    said = [f"{unnamed} smaller ones"] if unnamed else []
    if still:
        said.append(f"{len(still)} more always 0" if moving else f"all {len(still)} always 0")
    highest = max((max(line.values) for line in moving), default=0)
    most = group[0].most or nice(highest)
    names = [line.name for line in named]
    rest = ", ".join(said)
    return Chart(group[0].title, group[0].unit, most, named, rest, _wrapped([*names, rest]))


def nice(number: float) -> float:
    """Return a round number that is not below this one."""
    if number <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if step * power >= number * (1 - 1e-9))


def _wrapped(names: Sequence[str]) -> list[list[tuple[int, str]]]:
    """Return the legend's rows: each name with its number."""
    rows: list[list[tuple[int, str]]] = [[]]
    left = CELL
    for number, name in enumerate(names):
        if not name:
            continue
        if _width(name) > left and rows[-1]:
            rows.append([])
            left = CELL
        rows[-1].append((number, name))
        left -= _width(name)
    return rows


def _width(name: str) -> float:
    return 38 + _LETTER * len(name)


def _head(y: float, seconds: dict[str, float], look: Look) -> list[str]:
    loaded, away = (
        seconds["load"] / 60,
        [seconds[f"away_{each}"] / 60 for each in ("from", "until")],
    )
    style = (
        f"text {{ font: 12px system-ui, sans-serif; fill: {look.text} }}"
        f" .small {{ font-size: 11px; fill: {look.small} }} .title {{ font-weight: 600; font-size: 13px }}"
        f" .grid {{ stroke: {look.grid} }} .end {{ stroke: {look.small}; stroke-dasharray: 3 3 }}"
        " .line { fill: none; stroke-width: 1.8; stroke-linejoin: round }"
    )
    x = MARGIN
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" role="group">',
        "<title>The panels of the dashboard over a loaded run</title>",
        f"<style>{style}</style>",
        f'<rect width="{WIDTH}" height="{y:.0f}" fill="{look.ground}"/>',
        f'<text x="{x}" y="{MARGIN + 12}">Across: minutes since the first mail.'
        " Up: what the title says, from 0.</text>",
        f'<rect x="{x}" y="{MARGIN + 21}" width="14" height="11" fill="{look.band}"/>',
        f'<text class="small" x="{x + 20}" y="{MARGIN + 31}">minutes {away[0]:.1f} to {away[1]:.1f}:'
        " the model answers 503 and 429</text>",
        f'<line class="end" x1="{x + 330}" x2="{x + 330}" y1="{MARGIN + 20}" y2="{MARGIN + 34}"/>',
        f'<text class="small" x="{x + 338}" y="{MARGIN + 31}">minute {loaded:.1f}: the last mail</text>',
    ]


def _chart(chart: Chart, x: float, y: float, seconds: dict[str, float], look: Look) -> list[str]:
    left, top, width = x + AXIS, y + HEAD, CELL - AXIS
    scale = width / seconds["whole"]
    bottom = top + PLOT
    end = left + seconds["load"] * scale
    away = [left + seconds[f"away_{each}"] * scale for each in ("from", "until")]
    parts = [
        f'<g role="img"><title>{escape(chart.title)}</title>',
        f'<text class="title" x="{x:.1f}" y="{y + 14:.1f}">{escape(chart.title)}</text>',
        f'<rect x="{away[0]:.1f}" y="{top:.1f}" width="{away[1] - away[0]:.1f}" height="{PLOT}"'
        f' fill="{look.band}"/>',
        *_axes(chart, left, top, width, seconds["whole"]),
        f'<line class="end" x1="{end:.1f}" x2="{end:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>',
    ]
    for number, line in enumerate(chart.named):
        places = [
            (left + max(at, 0) * scale, bottom - min(value / chart.most, 1) * PLOT)
            for at, value in line.points
        ]
        parts.append(f'<path class="line" d="{_path(places)}" {_stroke(number, look)}/>')
    return [*parts, *_legend(chart, x, bottom + FOOT, look), "</g>"]


def _path(places: Sequence[tuple[float, float]]) -> str:
    """Return a line through these places, interrupted where a series was not there for a while."""
    steps = [second[0] - first[0] for first, second in pairwise(places)]
    longest = 2.5 * min((step for step in steps if step > 0), default=0)
    commands = ["M", *("L" if step <= longest else "M" for step in steps)]
    return " ".join(
        f"{command}{x:.1f},{y:.1f}" for command, (x, y) in zip(commands, places, strict=True)
    )


def _axes(chart: Chart, left: float, top: float, width: float, whole: float) -> list[str]:
    parts = []
    for half in range(3):
        y = top + PLOT * (1 - half / 2)
        parts += [
            f'<line class="grid" x1="{left:.1f}" x2="{left + width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text class="small" text-anchor="end" x="{left - 5:.1f}" y="{y + 4:.1f}">'
            f"{told(chart.most * half / 2, chart.unit)}</text>",
        ]
    step = max(round(whole / 60 / 8), 1)
    for minute in range(0, int(whole / 60) + 1, step):
        x = left + width * minute * 60 / whole
        parts.append(
            f'<text class="small" text-anchor="middle" x="{x:.1f}" y="{top + PLOT + 14:.1f}">{minute}</text>'
        )
    return parts


def _legend(chart: Chart, x: float, y: float, look: Look) -> list[str]:
    parts = []
    for row, names in enumerate(chart.rows):
        at, base = x, y + ROW * row + 10
        for number, name in names:
            if number < len(chart.named):
                parts.append(
                    f'<line x1="{at:.1f}" x2="{at + 20:.1f}" y1="{base - 4:.1f}" y2="{base - 4:.1f}"'
                    f' stroke-width="2.5" {_stroke(number, look)}/>'
                )
            indent = 24 if number < len(chart.named) else 0
            parts.append(
                f'<text class="small" x="{at + indent:.1f}" y="{base:.1f}">{escape(name)}</text>'
            )
            at += _width(name)
    return parts


def _stroke(number: int, look: Look) -> str:
    dash = _DASHES[number % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="{look.lines[number % len(look.lines)]}"{dashed}'


def told(value: float, unit: str) -> str:
    """Return a value as an axis or a table has it."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "currencyUSD":
        return f"${value:.2f}"
    number = f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
    return f"{number} s" if unit == "s" else number
