"""The figures of a benchmark, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figures:
    """What one mail costs. None: not measured, because it would say nothing. `database_ms`: CPU time of
    PostgreSQL."""

    cpu_ms: float
    transactions: float | None = None
    wall_ms: float | None = None
    per_second: float | None = None
    database_ms: float | None = None

    def plus(self, other: Figures) -> Figures:
        """Return both, one after the other. How many a second that makes cannot be told."""
        return Figures(
            self.cpu_ms + other.cpu_ms,
            _sum(self.transactions, other.transactions),
            _sum(self.wall_ms, other.wall_ms),
            database_ms=_sum(self.database_ms, other.database_ms),
        )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the work, beside the least that it could cost."""

    name: str
    mail: Figures
    floor: Figures


_COLUMNS = (
    ("CPU ms", "cpu_ms"),
    ("PostgreSQL's CPU ms", "database_ms"),
    ("SQL transactions", "transactions"),
    ("wall ms", "wall_ms"),
)
_NAME_WIDTH = 24


def render(rows: Sequence[Row]) -> str:
    """Return the table: for each figure the mail's, its floor's, and how many times the floor."""
    columns = (*_COLUMNS, ("mails/s", "per_second"))
    heads = "".join(f" | {title:^22}" for title, _ in columns)
    under = "".join(f" | {'mail':>7}{'floor':>8}{'ratio':>7}" for _ in columns)
    lines = [f"{'a mail costs':<{_NAME_WIDTH}}{heads}", f"{'':<{_NAME_WIDTH}}{under}"]
    lines.append("-" * len(lines[1]))
    for row in rows:
        cells = "".join(f" | {_cells(row, field)}" for _, field in columns)
        lines.append(f"{row.name:<{_NAME_WIDTH}}{cells}")
    return "\n".join(lines)


def _cells(row: Row, field: str) -> str:
    mail, floor = getattr(row.mail, field), getattr(row.floor, field)
    ratio = ratio_of(mail, floor)
    return f"{_number(mail):>7}{_number(floor):>8}{'–' if ratio is None else f'{ratio:.1f}×':>7}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def ratio_of(mail: float | None, floor: float | None) -> float | None:
    """Return how many times its floor a figure is; None where there is nothing to compare."""
    # Where nothing is used, as by three mails on a fast machine, there is no ratio.
    return mail / floor if mail is not None and floor else None


def as_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows as plain JSON data, ratios included."""
    return [
        asdict(row)
        | {
            "ratio": {
                name: ratio_of(figure, asdict(row.floor)[name])
                for name, figure in asdict(row.mail).items()
            }
        }
        for row in rows
    ]
