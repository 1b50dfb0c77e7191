"""The floor of a run: workflows of so many steps that do nothing, on connections like the app's.

`python -m tests.programs.bench.floor_steps` reads the job on standard input.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from mailagent.store.database import open_database

THREADS = 8


def _nothing() -> dict[str, str]:
    return {"kind": "nothing"}


@DBOS.workflow(name="bench_floor")
def bare_steps(count: int) -> str:
    """Record `count` steps."""
    for _ in range(count):
        DBOS.run_step({"name": "nothing"}, _nothing)
    return "done"


def _run(job: Mapping[str, Any]) -> dict[str, float]:
    """Do the steps of `mails` mails, at first one mail after the other for the wall time."""
    config = DBOSConfig(
        name="bench-floor",
        system_database_url=job["database_url"],
        application_version="1",
        executor_id="bench-floor",
        serializer=DBOSPortableJSONSerializer(),
        run_migrations=False,
        # DBOS's own asks of each connection whether it still is one, each time: as many transactions more.
        system_database_engine=open_database(job["database_url"], name="bench-floor").engine,
        log_level="WARNING",
    )
    DBOS(config=config)
    DBOS.launch()
    steps: Sequence[int] = job["steps"]
    alone = [_timed(steps) for _ in range(job["alone"])]
    began, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(_timed, [steps] * job["mails"]))
    result = {
        "wall_ms": statistics.median(alone) if alone else 0.0,
        "cpu_seconds": time.process_time() - used,
        "seconds": time.perf_counter() - began,
    }
    DBOS.destroy()
    return result


def _timed(steps: Sequence[int]) -> float:
    """Run the workflows of one mail and return how long they took, in ms."""
    began = time.perf_counter()
    for count in steps:
        bare_steps(count)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(json.load(sys.stdin))) + "\n")
