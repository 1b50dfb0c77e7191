"""A second worker in a process of its own: whoever replays a run does not choose who takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailagent.app import create_app
from mailagent.cli.worker import engine_of
from mailagent.demo.process import ROOT
from mailagent.workflows.launch import launch, stop
from tests.harness import Harness
from tests.processes import base_environment
from tests.programs.replay_sweep.holding import Holding

READY = "ready"


@contextmanager
def second_worker(harness: Harness, folder: Path) -> Iterator[None]:
    """Run another worker on the harness's database, which stops runs as this process does."""
    own = {"MAILAGENT_ROLE": "worker", "WORKER_ID": "second"}
    environment = {**base_environment(), **harness.environ, **own}
    command = [sys.executable, "-m", "tests.programs.replay_sweep.neighbour", str(folder)]
    with (
        (folder / "second.log").open("ab") as log,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        said = process.stdout.readline().strip()
        if said != READY:
            raise AssertionError((folder / "second.log").read_text()[-2000:])
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(30)


def main(folder: str) -> None:
    """Work until standard input ends."""
    Holding(Path(folder)).watch()
    app = create_app(dict(os.environ))
    launch(engine_of(app.config["MAILAGENT"]))
    print(READY, flush=True)
    sys.stdin.read()
    stop()


if __name__ == "__main__":
    main(sys.argv[1])
