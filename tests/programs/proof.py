"""What the programs that prove something share: their options, the version that they ran with, and places in
documents for what they found."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mailagent.app import ROOT

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
    """Add the option for what becomes of the results."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")


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
    return f"Points: {', '.join(counts)}."


def write_results(file: Path | None, rows: Rows) -> None:
    """Write rows to the file that `--json` named."""
    if file is not None:
        file.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


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
