"""The floor of a run: workflows of so many steps that do nothing, on connections like the app's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from mailagent.store.database import open_database

THREADS = 8


@dataclass(frozen=True, slots=True)
class Done:
    """`wall_ms`: of one mail by itself, in the median; the others: of all mails at once."""

    wall_ms: float
    cpu_seconds: float
    seconds: float


def run(database_url: str, steps: Sequence[int], alone: int, mails: int) -> Done:
    """Do the steps of one mail after the other, then those of many mails at once. Once in a process."""

    @DBOS.workflow(name="bench_floor")
    def bare_steps(count: int) -> str:
        for _ in range(count):
            DBOS.run_step({"name": "nothing"}, lambda: {"kind": "nothing"})
        return "done"

    def timed(_number: int) -> float:
        """Run the workflows of one mail and return how long they took, in ms."""
        began = time.perf_counter()
        for count in steps:
            bare_steps(count)
        return (time.perf_counter() - began) * 1000

    config = DBOSConfig(
        name="bench-floor",
        system_database_url=database_url,
        application_version="1",
        executor_id="bench-floor",
        serializer=DBOSPortableJSONSerializer(),
        run_migrations=False,
        # DBOS's own engine pings each connection each time: as many transactions more.
        system_database_engine=open_database(database_url, name="bench-floor").engine,
        log_level="WARNING",
    )
    DBOS(config=config)
    DBOS.launch()
    wall_ms = [timed(number) for number in range(alone)]
    began, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(timed, range(mails)))
    cpu_seconds, seconds = time.process_time() - used, time.perf_counter() - began
    DBOS.destroy()
    return Done(statistics.median(wall_ms or [0.0]), cpu_seconds, seconds)
