"""Replay finished, failed and waiting runs from every step, in every way: `python -m
tests.programs.replay_sweep`.

Prints a line for each point at which a promise was broken, and the counts of each story; exits with
1 if there was one, or a point that was not reached, or if nothing was replayed at all; and unless
it is a sample, if a way was refused at every point.
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

from tests.programs.replay_sweep.one_database import Row, sweep
from tests.programs.run_record import this_run


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
    run = this_run()
    kinds = options.database or ["sqlite", "postgresql"]
    # Each in a process of its own: one has a core's worth of work for nearly all of its time.
    with ProcessPoolExecutor(len(kinds), get_context("spawn")) as processes:
        rows = [row for part in processes.map(partial(sweep, options), kinds) for row in part]
    print(f"\nseed {options.seed}")
    if options.json:
        options.json.write_text(json.dumps([row | run for row in rows], indent=1))
    whole = not options.sample and not options.only
    if whole:
        for way in find_refused(rows):
            print(f"refused at every point: {way}")
    return exit_code(rows, whole)


def find_refused(rows: list[Row]) -> list[str]:
    """Return the ways that were refused at every point of a database: they have shown nothing there."""
    refused = {(row["database"], row["way"]) for row in rows if row["outcome"] == "refused"}
    others = {(row["database"], row["way"]) for row in rows if row["outcome"] != "refused"}
    return [f"{kind}, {way}" for kind, way in sorted(refused - others)]


def exit_code(rows: list[Row], whole: bool = False) -> int:
    """Return 0 if points were replayed or refused, at least one of them replayed, and all held; where the
    points of the stories are `whole`, not a sample, at least one in each way on each database."""
    outcomes = {row["outcome"] for row in rows}
    if "held" not in outcomes or not outcomes <= {"held", "refused"}:
        return 1
    return 1 if whole and find_refused(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
