"""`python -m tests.crash_table FILE …` puts what `tests.crash_sweep --json` wrote into docs/reliability.md.

A row for each step, a column for each story, and in each cell at how many points the app was killed on
every database, all of them held; anything else is said in words.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "reliability.md"
BEGIN = "<!-- crash sweep: the table of its last full run goes here -->\n"
END = "<!-- end of crash sweep -->"


def main(files: list[str]) -> None:
    """Write the table of these results into the document."""
    results = [row for name in files for row in json.loads(Path(name).read_text("utf-8"))]
    before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + BEGIN + table(results) + END + after, "utf-8")


def table(results: list[dict[str, str]]) -> str:
    """Return the table, and a line that counts, as Markdown."""
    cells: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for row in results:
        flow, _, rest = row["point"].partition(": ")
        step, _, _ = rest.partition(", ")
        cells.setdefault((step, flow), Counter())[row["database"], row["outcome"]] += 1
    flows = list(dict.fromkeys(flow for _, flow in cells))
    lines = [f"| step | {' | '.join(flows)} |", "|---" * (len(flows) + 1) + "|"]
    for step in sorted({step for step, _ in cells}):
        told = (_told(cells.get((step, flow), Counter())) for flow in flows)
        lines.append(f"| `{step}` | {' | '.join(told)} |")
    counts = Counter((row["database"], row["outcome"]) for row in results)
    summary = ", ".join(f"{kind} {count} {word}" for (kind, word), count in sorted(counts.items()))
    return "\n".join([*lines, "", f"Points at which it was killed, in all: {summary}.", ""])


def _told(outcomes: Counter[tuple[str, str]]) -> str:
    if not outcomes:
        return "–"
    counts = {count for (_, outcome), count in outcomes.items() if outcome == "held"}
    if len(counts) == 1 and all(outcome == "held" for _, outcome in outcomes):
        return str(counts.pop())
    return "; ".join(f"{kind} {count} {word}" for (kind, word), count in sorted(outcomes.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
