"""A worker that stops itself with SIGSTOP as soon as a step comes to the point that the file MAILAGENT_STOP_AT
names ("pay_refund asked"), and then removes the file. It notes in MAILAGENT_JOURNAL where it has been."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from flask.cli import main

from mailagent.workflows import launch  # loading it is what makes the steps known
from mailagent.workflows.steps import recording


def stop_at(order: Path, journal: Path) -> None:
    one_by_one = threading.Lock()  # the last line of the journal is where it stopped

    def note(step: str, point: str) -> None:
        with one_by_one:
            at = f"{step} {point}"
            with journal.open("a", encoding="utf-8") as lines:
                lines.write(at + "\n")
            if order.exists() and order.read_text("utf-8") == at:
                order.unlink()
                os.kill(os.getpid(), signal.SIGSTOP)

    recording.watch(note)


if __name__ == "__main__":
    assert launch.WORKFLOWS
    stop_at(Path(os.environ["MAILAGENT_STOP_AT"]), Path(os.environ["MAILAGENT_JOURNAL"]))
    sys.argv = ["flask", "--app", "wsgi", "worker"]
    main()
