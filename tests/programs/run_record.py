"""Of which program, and when, a proof was run: recorded with its results, told below its table."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
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


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
