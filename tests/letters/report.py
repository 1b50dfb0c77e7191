"""What came of a folder of mail: a row for each file, figures for all, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.letters.posting import Outcome

SLOW_MILLISECONDS = 100
LARGE_BYTES = 1_000_000
SLOWEST_SHOWN = 5
NAME_MAX_LENGTH = 60

_HEADINGS = ("file", "answer", "stored", "kind", "identity", "new text", "ms")


@dataclass(frozen=True, slots=True)
class Posted:
    """One file and what came of it."""

    name: str
    size_bytes: int
    outcome: Outcome

    @property
    def stored(self) -> str:
        if self.outcome.duplicate:
            return "duplicate"
        if not self.outcome.whole:
            return "NO" if self.outcome.row is None else "NOT WHOLE"
        return "whole"

    @property
    def kind(self) -> str:
        return str(self.outcome.row.kind) if self.outcome.row else "-"

    @property
    def identity(self) -> str:
        return str(self.outcome.row.identity) if self.outcome.row else "-"

    @property
    def slow(self) -> bool:
        return self.outcome.milliseconds > SLOW_MILLISECONDS and self.size_bytes <= LARGE_BYTES

    def cells(self) -> tuple[str, ...]:
        row = self.outcome.row
        found = f"{len(row.new_text)} of {len(row.body)}" if row else "-"
        name = self.name if len(self.name) <= NAME_MAX_LENGTH else f"…{self.name[-59:]}"
        ms = f"{self.outcome.milliseconds:.1f}"
        return name, str(self.outcome.code), self.stored, self.kind, self.identity, found, ms

    def data(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        row = self.outcome.row
        shown = ("kind", "identity", "status", "no_answer_reason", "subject", "body", "new_text")
        return {
            "file": self.name,
            "size_bytes": self.size_bytes,
            "answer": self.outcome.code,
            "stored": self.stored,
            "milliseconds": round(self.outcome.milliseconds, 1),
            "problems": list(self.outcome.problems),
            **({name: row._mapping[name] for name in shown} if row else {}),
            "flags": list(row.flags) if row else [],
            "attachments": list(row.attachments) if row else [],
        }


def table(posted: Sequence[Posted]) -> str:
    """Return a line for each file, columns below each other."""
    lines = [_HEADINGS, *(one.cells() for one in posted)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def summary(posted: Sequence[Posted]) -> str:
    """Return the figures for all files."""
    return "\n".join(_summary_lines(posted))


def figures(posted: Sequence[Posted]) -> dict[str, Any]:
    """Return the figures for all files as plain JSON data."""
    return {
        "mails": len(posted),
        "kinds": dict(Counter(one.kind for one in posted).most_common()),
        "identities": dict(Counter(one.identity for one in posted).most_common()),
        "not_200": [one.name for one in posted if one.outcome.code != 200],
        "raised": [one.name for one in posted if one.outcome.problems],
        "not_whole": [one.name for one in posted if one.stored in {"NO", "NOT WHOLE"}],
        "duplicates": [one.name for one in posted if one.outcome.duplicate],
        "slow": [one.name for one in posted if one.slow],
    }


def _summary_lines(posted: Sequence[Posted]) -> Iterator[str]:
    found = figures(posted)
    yield f"{found['mails']} mails"
    for name in ("kinds", "identities"):
        yield f"{name}: " + ", ".join(f"{count} {word}" for word, count in found[name].items())
    slowest = sorted(posted, key=lambda one: -one.outcome.milliseconds)[:SLOWEST_SHOWN]
    yield "slowest: " + ", ".join(f"{x.name} {x.outcome.milliseconds:.1f} ms" for x in slowest)
    over = f"over {SLOW_MILLISECONDS} ms though not over {LARGE_BYTES // 1_000_000} MB"
    labels = {
        "not_200": "not 200",
        "raised": "raised",
        "not_whole": "not whole",
        "duplicates": "the same mail as another file",
        "slow": over,
    }
    for name, label in labels.items():
        yield f"{label}: " + (", ".join(found[name]) or "none")
    for one in posted:
        for problem in one.outcome.problems:
            yield f"  {one.name}: {problem}"
