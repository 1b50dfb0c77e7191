"""Put deliberate bugs into copies of the program, one at a time, and see which test catches each:
`python -m tests.programs.mutations`.

Prints a line for each bug; exits with 1 if one survived or could not be tried, or if there is none. A bug
is tried once its tests have passed without it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.programs.mutations.bugs import load_bugs
from tests.programs.mutations.trial import Trials, Verdict, snapshot
from tests.programs.run_record import this_run


def main() -> int:
    """Try the bugs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only bugs whose name has this in it")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    options = parser.parse_args()
    bugs = [bug for bug in load_bugs() if options.only in bug.name]
    if not bugs:
        print(f"no bug has {options.only!r} in its name")
        return 1
    verdicts, run = [], this_run()
    with snapshot() as tree, ThreadPoolExecutor(options.jobs) as jobs:
        for verdict in jobs.map(Trials(tree).try_bug, bugs):
            verdicts.append(verdict)
            _tell(verdict)
    if options.json:
        options.json.write_text(json.dumps([_row(each) | run for each in verdicts], indent=1))
    counts = Counter(verdict.outcome for verdict in verdicts)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 0 if set(counts) <= {"caught"} else 1


def _tell(verdict: Verdict) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
