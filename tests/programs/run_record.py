"""Of which program, and when, a proof was run, and its table in the documentation."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RELIABILITY = ROOT / "docs" / "reliability.md"
# What a proof runs. Documents are left out: putting one table there is no change of the next one's program.
PROGRAM = ("mailagent", "migrations", "templates", "tests", "wsgi.py", "requirements.txt")


def this_run(root: Path = ROOT) -> dict[str, str]:
    """Return the `commit` of the program under `root` ("unknown" without git), followed by "+ changes" if
    it differs from that, and today's `date` in UTC. To be asked when a run begins."""
    today = datetime.now(UTC).date().isoformat()
    try:
        commit = _git(root, "rev-parse", "--short", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *PROGRAM)
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown", "date": today}
    return {"commit": f"{commit} + changes" if changed else commit, "date": today}


def told(results: Iterable[Mapping[str, Any]]) -> str:
    """Return of which commits, and when, these results are; each says so by `commit` and `date`, or is
    older than that."""
    runs = {(each.get("date", ""), each.get("commit", "")) for each in results}
    return "; ".join(
        f"commit {commit}, {date}" if commit else "a commit that was not recorded"
        for date, commit in sorted(runs)
    )


def put_between(document: Path, begin: str, end: str, block: str) -> None:
    """Replace what stands between two marks of a document. Raises ValueError where it has none."""
    before, found, rest = document.read_text("utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{document} has no place for the result: put {begin} and {end} there")
    document.write_text(f"{before}{begin}\n{block}{end}{after}", "utf-8")


def put_table(
    files: Iterable[str], table: Callable[[list[dict[str, str]]], str], begin: str, end: str
) -> None:
    """Put the table of the results in these JSON files into docs/reliability.md."""
    rows = [row for name in files for row in json.loads(Path(name).read_text("utf-8"))]
    put_between(RELIABILITY, begin, end, table(rows))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
