"""`python -m tests.programs.mutations.table FILE` puts what `tests.programs.mutations --json` wrote
into docs/reliability.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.programs.run_record import put_table, told

BEGIN = "<!-- deliberate bugs: the table of the last full run goes here -->"
END = "<!-- end of deliberate bugs -->"


def table(rows: list[dict[str, str]]) -> str:
    """Return a row for each bug, and a line that counts, as Markdown."""
    lines = ["| promise | bug | what it would do | caught by |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda each: each["promise"]):
        by = _test(row["caught_by"]) if row["outcome"] == "caught" else f"**{row['outcome']}**"
        lines.append(f"| {row['promise']} | {row['bug']} | {row['hurts']} | {by} |")
    caught = sum(row["outcome"] == "caught" for row in rows)
    summary = f"Bugs tried: {len(rows)}. Caught: {caught}. Run at {told(rows)}."
    return "\n".join([*lines, "", summary, ""])


def _test(node: str) -> str:
    """Return a test as a link to its file, without its parameters."""
    file, _, name = node.partition("::")
    name = name.partition("[")[0].replace("_", " ").removeprefix("test ")
    return f"[{name or Path(file).name}](../{file})"


if __name__ == "__main__":
    put_table(sys.argv[1:], table, BEGIN, END)
