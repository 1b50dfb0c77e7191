"""Replay finished, failed and waiting runs from every step, in every way: `python -m tests.replay_sweep`.

Prints a line for each point at which a promise was broken, and the counts of each story; exits with 1 if
there was one, or a point that was not reached, or if nothing was replayed at all.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.replay_sweep.one_database import Row, sweep


def main() -> int:
    """Sweep; exit as `exit_code` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="only so many points of each story, by chance")
    parser.add_argument("--only", default="", help="only points whose name has this in it")
    parser.add_argument("--story", default="", help="only stories whose name has this in it")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    options = parser.parse_args()
    # The SDKs would ask a proxy for servers of this machine, too.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    kinds = options.database or ["sqlite", "postgresql"]
    # Each in a process of its own: one has a core's worth of work for nearly all of its time.
    with ProcessPoolExecutor(len(kinds), get_context("spawn")) as processes:
        rows = [row for part in processes.map(partial(sweep, options), kinds) for row in part]
    print(f"\nseed {options.seed}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return exit_code(rows)


def exit_code(rows: list[Row]) -> int:
    """Return 0 if points were replayed or refused, at least one of them replayed, and all held."""
    outcomes = {row["outcome"] for row in rows}
    return 0 if "held" in outcomes and outcomes <= {"held", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
