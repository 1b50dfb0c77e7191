"""Put deliberate bugs into copies of the program, one at a time, and see which test catches each.

Prints a line for each bug. Exits with 1 if one survived or could not be tried, or if there is none. A bug is
tried once its tests have passed without it.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.programs import proof
from tests.programs.mutations.bugs import load_bugs
from tests.programs.mutations.trial import Trials, Verdict, snapshot


def main() -> int:
    """Try the bugs."""
    parser = argparse.ArgumentParser("python -m tests.programs.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="only bugs whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="bugs tried at the same time")
    proof.add_results(parser)
    options = parser.parse_args()
    bugs = [bug for bug in load_bugs() if options.only in bug.name]
    rows = []
    with snapshot() as tree, ThreadPoolExecutor(options.jobs) as jobs:
        for verdict in jobs.map(Trials(tree).try_bug, bugs):
            rows.append(_row(verdict))
            _print(verdict)
    proof.write_results(options.json, rows)
    print(proof.count_outcomes(rows))
    return 0 if {row["outcome"] for row in rows} == {"caught"} else 1


def _print(verdict: Verdict) -> None:
    words = f"{verdict.caught_by} {verdict.said}".strip()
    print(f"{verdict.outcome:9}  {verdict.seconds:4.0f} s  {verdict.bug.name}: {words}", flush=True)


def _row(verdict: Verdict) -> dict[str, object]:
    bug = verdict.bug
    return {
        "bug": bug.name,
        "promise": bug.promise,
        "hurts": bug.hurts,
        "outcome": verdict.outcome,
        "caught_by": verdict.caught_by,
        "seconds": round(verdict.seconds, 1),
    }


def table(rows: proof.Rows) -> str:
    """Return a row for each bug, and a line that counts."""
    lines = ["| promise | bug | what it would do | caught by |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda each: str(each["promise"])):
        by = _link(row["caught_by"]) if row["outcome"] == "caught" else f"**{row['outcome']}**"
        lines.append(f"| {row['promise']} | {row['bug']} | {row['hurts']} | {by} |")
    return "\n".join([*lines, "", f"Bugs: {proof.count_outcomes(rows)}."])


def _link(test: str) -> str:
    """Return a test as a link to its file, without its parameters."""
    file, _, name = test.partition("::")
    name = name.partition("[")[0].replace("_", " ").removeprefix("test ")
    return f"[{name or Path(file).name}](../{file})"


if __name__ == "__main__":
    sys.exit(main())
