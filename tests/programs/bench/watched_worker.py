"""`flask worker`, which also writes down how many of its runs wait for a wake-up or a date.

`python -m tests.programs.bench.watched_worker FILE`; a line of JSON stands in FILE, replaced
several times a second.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path

from dbos._dbos import _get_dbos_instance
from dbos._error import DBOSException

_EVERY_SECONDS = 0.2


def count_waiting() -> int:
    """Return how many runs of this process stand in `recv`; 0 before the engine has started.

    Nothing tells it from outside: a run that waits again after a crash records nothing new.
    """
    try:
        # Its waiters by key; one key is one run and topic.
        return len(_get_dbos_instance()._sys_db.notifications_map.snapshot())
    except DBOSException:
        return 0


def _write_down(path: Path) -> None:
    fresh = path.with_suffix(".new")
    while True:
        fresh.write_text(json.dumps({"waiting": count_waiting(), "pid": os.getpid()}), "utf-8")
        fresh.replace(path)
        time.sleep(_EVERY_SECONDS)


if __name__ == "__main__":
    threading.Thread(target=_write_down, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.argv = ["flask", "--app", "wsgi", "worker"]
    runpy.run_module("flask", run_name="__main__")
