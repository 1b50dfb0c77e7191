"""What is told of a sweep: a line for each point, the counts, and the same as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.programs.crash_sweep.promises import CHECKS


@dataclass(frozen=True)
class Result:
    """What came of one point: `held`, `not reached` or `BROKEN`. Without a `name` it is of the story, played
    whole: `BROKEN`, or `differs` from what it declares; what it came to is swept all the same."""

    database: str
    story: str
    name: str
    at: str
    outcome: str
    seconds: float
    why: str = ""

    def __str__(self) -> str:
        where = (
            f"{self.story}: {self.name}, {self.at}" if self.name else f"{self.story}, played whole"
        )
        line = f"{self.database:10}  {self.outcome:11}  {self.seconds:5.1f} s  {where}"
        return f"{line}\n{self.why}" if self.why else line

    @property
    def is_bad(self) -> bool:
        """Whether the sweep fails by it: a point that was not reached has shown nothing."""
        return self.outcome != "held"


def are_any_tried(results: Sequence[Result]) -> bool:
    """Say whether anybody was killed at all: a sweep of no points has shown nothing."""
    return any(result.name for result in results)


def print_summary(results: Sequence[Result], seed: int, took_seconds: float) -> None:
    """Print how many points of each database held, which promises were checked, and how long it took."""
    counts = Counter((result.database, result.outcome) for result in results)
    print(f"\nseed {seed}, {took_seconds:.0f} seconds")
    print(f"promises checked after each: {', '.join(CHECKS)}")
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:10}  {outcome:11}  {count}")
    for result in results:
        if result.is_bad:
            print(
                f"{result.outcome}: {result.database}, {result.story}: {result.name}, {result.at}"
            )


def write_json(path: Path, results: Sequence[Result], run: Mapping[str, str]) -> None:
    """Write the results where `tests.programs.crash_table` reads them; `run`: of which program, and when."""
    path.write_text(
        json.dumps([{**asdict(result), **run} for result in results], indent=1), "utf-8"
    )
