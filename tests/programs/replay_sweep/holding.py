"""Stops the originals of runs in the middle of a step, in whichever process they are: by files in a folder
that all processes look into."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from dbos import DBOS

from mailagent.workflows.steps import recording

LONGEST_SECONDS = 60.0


class Holding:
    """One process's end of it. A run is stopped once, at the point that is armed, until the release."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._armed = folder / "armed"
        self._number = 0

    def watch(self) -> Callable[[], None]:
        """Stand at every step of this process until what is returned is called."""
        return recording.watch(self._stop_here)

    def arm(self, workflow: str, step: str, at: str) -> None:
        """Stop from now on whatever run of the workflow comes to this point."""
        self._number += 1
        self._armed.write_text(f"{self._number} {workflow} {step} {at}")

    def list_held(self) -> list[str]:
        """Return the runs that have been stopped since the arming."""
        prefix = f"held {self._number} "
        return [path.name.removeprefix(prefix) for path in self._folder.glob(f"{prefix}*")]

    def release(self) -> None:
        """Let them go on, and stop no others."""
        self._armed.unlink()
        (self._folder / f"released {self._number}").touch()

    def _stop_here(self, step: str, at: str) -> None:
        run_id = DBOS.workflow_id
        if run_id is None or not self._armed.exists():
            return
        number, workflow, armed_step, armed_at = self._armed.read_text().split(" ", 3)
        is_original = run_id.startswith(f"{workflow}-") and run_id.count("-") == 1
        if (step, at) != (armed_step, armed_at) or not is_original:
            return
        try:
            (self._folder / f"held {number} {run_id}").touch(exist_ok=False)
        except FileExistsError:
            return  # the same run, taken up by somebody else
        deadline = time.monotonic() + LONGEST_SECONDS
        while not (self._folder / f"released {number}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
