"""`python -m tests.programs.crash_table FILE …` puts what `tests.programs.crash_sweep --json` wrote
into docs/reliability.md.

A row for each step and each POST: in which stories it was met, and at how many points in all the
app was killed there on each database, all of them held; anything else is said in words.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

from tests.programs.run_record import put_table, told

BEGIN = "<!-- crash sweep: the table of its last full run goes here -->"
END = "<!-- end of crash sweep -->"
STORIES_NAMED = 3

Rows = list[dict[str, str]]


def table(results: Rows) -> str:
    """Return the table, and a line that counts, as Markdown."""
    kinds = sorted({row["database"] for row in results})
    lines = [f"| killed in | stories | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for name in sorted({row["name"] for row in results}, key=lambda name: (" " in name, name)):
        rows = [row for row in results if row["name"] == name]
        counted = (_told([row for row in rows if row["database"] == kind]) for kind in kinds)
        shown = f"`{name}`" if name else "a story, played whole"
        lines.append(f"| {shown} | {_name_stories(rows)} | {' | '.join(counted)} |")
    counts = Counter((row["database"], row["outcome"]) for row in results)
    summary = ", ".join(f"{kind} {count} {word}" for (kind, word), count in sorted(counts.items()))
    points = f"Points at which it was killed, in all: {summary}. Run at {told(results)}."
    return "\n".join([*lines, "", points, ""])


def _name_stories(rows: Rows) -> str:
    names = sorted({row["story"] for row in rows})
    more = len(names) - STORIES_NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:STORIES_NAMED])} and {more} more"


def _told(rows: Iterable[dict[str, str]]) -> str:
    outcomes = Counter(row["outcome"] for row in rows)
    if not outcomes:
        return "–"
    if outcomes.keys() == {"held"}:
        return str(outcomes["held"])
    return ", ".join(f"{count} {word}" for word, count in sorted(outcomes.items()))


if __name__ == "__main__":
    put_table(sys.argv[1:], table, BEGIN, END)
