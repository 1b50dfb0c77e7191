"""A second worker in a process of its own: nobody chooses which worker takes a replayed run.

`python -m tests.programs.replay_sweep.neighbour FOLDER` is `flask worker`, which stops runs as `Holding` says.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import Harness
from tests.processes import Worker, base_environment
from tests.programs.replay_sweep.holding import Holding


@contextmanager
def second_worker(harness: Harness, folder: Path) -> Iterator[None]:
    """Run another worker on the harness's database, which stops runs as this process does."""
    environment = {**base_environment(), **harness.environ}
    worker = Worker("second", environment, folder, (__name__, str(folder)))
    try:
        worker.start_and_wait()
        yield
    finally:
        worker.stop()


if __name__ == "__main__":
    Holding(Path(sys.argv[1])).watch()
    sys.argv = ["flask", "--app", "wsgi", "worker"]
    runpy.run_module("flask", run_name="__main__")
