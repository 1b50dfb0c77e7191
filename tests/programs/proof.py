"""What the programs that prove something share: their options, the version that they ran with, and their
place in the documentation."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mailagent.app import ROOT

RELIABILITY = ROOT / "docs" / "reliability.md"
DATABASES = ("sqlite", "postgresql")
# What a proof runs. Documents are left out: a table that was put there does not change the program.
PROGRAM = ("mailagent", "migrations", "templates", "tests", "wsgi.py", "requirements.txt")

Rows = list[dict[str, Any]]


def sweep_options(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that all sweeps have."""
    parser = argparse.ArgumentParser(f"python -m tests.programs.{program}", description=description)
    parser.add_argument("--sample", type=int, metavar="N", help="only N points, chosen at random")
    parser.add_argument("--only", default="", help="only points whose name contains this")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random choice")
    parser.add_argument("--database", choices=DATABASES, action="append", help="default: both")
    add_results(parser)
    return parser


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the options for what becomes of the results."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    parser.add_argument(
        "--table",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="run nothing; write the table of these results into docs/reliability.md",
    )


def this_run() -> dict[str, str]:
    """Return the `commit` of the program ("unknown" without git), followed by "+ changes" if the program
    differs from it, and today's `date` in UTC. Call it when a run begins."""
    today = datetime.now(UTC).date().isoformat()
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", *PROGRAM)
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown", "date": today}
    return {"commit": f"{commit} + changes" if changed else commit, "date": today}


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def told(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the commits and the days of results, each of which has a `commit` and a `date`."""
    runs = sorted({(each["date"], each["commit"]) for each in results})
    return "; ".join(f"commit {commit}, {date}" for date, commit in runs)


def count_outcomes(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return how many rows have each `outcome`, such as "3 held, 1 refused"; a dash without rows."""
    counts = Counter(row["outcome"] for row in rows)
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "–"


def count_points(rows: Rows) -> str:
    """Return the line below a sweep's table."""
    kinds = sorted({row["database"] for row in rows})
    counts = (
        f"{kind} {count_outcomes(row for row in rows if row['database'] == kind)}" for kind in kinds
    )
    return f"Points: {', '.join(counts)}. Run at {told(rows)}."


def write_results(file: Path | None, rows: Rows, run: Mapping[str, str]) -> None:
    """Write rows, each with the run it is from, to the file that `--json` named."""
    if file is not None:
        file.write_text(json.dumps([row | dict(run) for row in rows], indent=1) + "\n", "utf-8")


def put_table(name: str, files: Iterable[Path], table: Callable[[Rows], str]) -> None:
    """Write the table of the results in these files into its place in docs/reliability.md."""
    rows = [row for file in files for row in json.loads(file.read_text("utf-8"))]
    text = RELIABILITY.read_text("utf-8")
    RELIABILITY.write_text(with_part(text, name, table(rows)), "utf-8")


def part_of(text: str, name: str) -> str:
    """Return the part of a document between its two marks. Raises ValueError if it has no such part."""
    found = _marks(name).search(text)
    if found is None:
        raise ValueError(f"the document has no place for {name}: <!-- {name} --> …")
    return found[2]


def with_part(text: str, name: str, block: str) -> str:
    """Return the document with `block` between these marks. Raises ValueError if it has no such part."""
    part_of(text, name)
    block = block.rstrip("\n")
    return _marks(name).sub(lambda found: f"{found[1]}{block}\n{found[3]}", text)


def _marks(name: str) -> re.Pattern[str]:
    """Match `<!-- NAME … -->`, the part, and `<!-- end of NAME -->`."""
    name = re.escape(name)
    return re.compile(rf"(<!-- {name}\b[^>]*-->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)
