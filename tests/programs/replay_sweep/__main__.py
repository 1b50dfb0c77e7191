"""Replay finished, failed and waiting runs from every step, in every way; check that nothing is paid or
written twice and that links still work.

Prints each point at which a promise was broken, and the counts of each story. Exits with 1 if there was one,
a point was not reached or nothing was replayed; in a whole sweep also if a way was refused at every point.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.programs import proof
from tests.programs.replay_sweep.one_database import sweep_all


def main() -> int:
    """Sweep as the command line says."""
    options = proof.sweep_options("replay_sweep", __doc__).parse_args()
    # The SDKs would ask a proxy for servers of this machine, too.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    kinds = options.database or proof.DATABASES
    # Each in a process of its own: a sweep keeps one core busy.
    with ProcessPoolExecutor(len(kinds), get_context("spawn")) as processes:
        rows = [row for part in processes.map(partial(sweep_all, options), kinds) for row in part]
    proof.write_results(options.json, rows)
    print(f"\nseed {options.seed}\n{proof.count_points(rows)}")
    refused = [] if options.sample or options.only else find_refused(rows)
    for way in refused:
        print(f"refused at every point: {way}")
    outcomes = {row["outcome"] for row in rows}
    return 0 if "held" in outcomes <= {"held", "refused"} and not refused else 1


def find_refused(rows: proof.Rows) -> list[str]:
    """Return the ways that were refused at every point of a database: they have shown nothing there."""
    refused = {(row["database"], row["way"]) for row in rows if row["outcome"] == "refused"}
    others = {(row["database"], row["way"]) for row in rows if row["outcome"] != "refused"}
    return [f"{kind}, {way}" for kind, way in sorted(refused - others)]


def table(rows: proof.Rows) -> str:
    """Return a row for each story, a column for each way, and in each cell the outcomes on all databases."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = [f"| story | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for story in dict.fromkeys(row["story"] for row in rows):
        cells = (
            proof.count_outcomes(row for row in rows if (row["story"], row["way"]) == (story, way))
            for way in ways
        )
        lines.append(f"| {story} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", proof.count_points(rows)])


if __name__ == "__main__":
    sys.exit(main())
