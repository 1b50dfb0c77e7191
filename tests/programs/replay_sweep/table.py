"""`python -m tests.programs.replay_sweep.table FILE …` puts what `tests.programs.replay_sweep --json`
wrote into docs/reliability.md: a row for each story, a column for each way, and in each cell how
many points held.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.programs.run_record import put_table, told

BEGIN = "<!-- replay sweep: the table of its last full run goes here -->"
END = "<!-- end of replay sweep -->"

Row = dict[str, str]


def table(rows: list[Row]) -> str:
    """Return the table, and a line that counts, as Markdown."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = [f"| story | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for story in dict.fromkeys(row["story"] for row in rows):
        cells = (_cell(rows, story, way) for way in ways)
        lines.append(f"| {story} | {' | '.join(cells)} |")
    counts = Counter((row["database"], row["outcome"]) for row in rows)
    summary = ", ".join(
        f"{kind} {count} {outcome}" for (kind, outcome), count in sorted(counts.items())
    )
    return "\n".join([*lines, "", f"Points, in all: {summary}. Run at {told(rows)}.", ""])


def _cell(rows: list[Row], story: str, way: str) -> str:
    """Return how many points held, and how many were refused, on the databases together; and what else
    became of points, in words."""
    here = [row for row in rows if (row["story"], row["way"]) == (story, way)]
    if not here:
        return "–"
    outcomes = Counter(row["outcome"] for row in here)
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))


if __name__ == "__main__":
    put_table(sys.argv[1:], table, BEGIN, END)
