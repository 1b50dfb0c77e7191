"""`python -m tests.programs.mutations.table FILE` puts what `tests.programs.mutations --json` wrote
into docs/reliability.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.programs.run_record import told

DOCUMENT = Path(__file__).parents[3] / "docs" / "reliability.md"
BEGIN = "<!-- deliberate bugs: the table of the last full run goes here -->\n"
END = "<!-- end of deliberate bugs -->"


def main(file: str) -> None:
    """Write the table of these results into the document."""
    rows = json.loads(Path(file).read_text("utf-8"))
    before, begin, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DOCUMENT.name} has no place for this table: {BEGIN.strip()} … {END}")
    DOCUMENT.write_text(before + BEGIN + table(rows) + END + after, "utf-8")


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
    main(sys.argv[1])
