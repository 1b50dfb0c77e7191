"""A planned death: the process kills itself with SIGKILL at one point of one step, once.

For the demo's story and the crash tests; production refuses to start with it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from mailagent.workflows import launch  # loading it is what makes the steps known
from mailagent.workflows.steps import recording

__all__ = ["launch", "plan"]


def plan(crash_at: str, marker: Path | None) -> None:
    """Die when `crash_at` (`<step>:<point>`, points as in `recording.CRASH_POINTS`) is reached.

    `marker` is a file that is made just before dying; where it exists, nobody dies any more.
    Raises ValueError for a point that does not exist.
    """
    step, _, point = crash_at.partition(":")
    points = recording.CRASH_POINTS.get(step, ())
    if point not in points:
        raise ValueError(
            f"MAILAGENT_CRASH_AT is {crash_at!r}; {step!r} has the points {', '.join(points) or 'none'}"
        )

    def die(name: str, at: str) -> None:
        if (name, at) != (step, point) or (marker is not None and marker.exists()):
            return
        if marker is not None:
            marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    recording.watch(die)
