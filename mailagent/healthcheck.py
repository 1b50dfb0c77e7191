"""Does the process in this container live? For a health check: `python -m mailagent.healthcheck`.
With `--ready` a worker must have begun, too: one that still waits for its database lives and is not ready.

Nothing of the app is loaded, for it is asked every few seconds. A database that is away is no reason to
start a process again, so it is not asked about here: that is what `/readyz` and `/ops` are for.
"""

from __future__ import annotations

import http.client
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

PORT = 8000
ANSWER_SECONDS = 5.0
# A worker beats every four to six seconds; a beat that meets a database that hangs takes longer.
SILENT_SECONDS = 90.0


def find_problem(
    environ: Mapping[str, str], port: int = PORT, *, ready: bool = False
) -> str | None:
    """Return what is wrong with the process that runs under this environment; None if it lives.
    `ready`: whether a worker that has not beaten yet is one that has something wrong.

    Read by hand and not by `settings`, which takes a third of a second of CPU time to load.
    """
    role = environ.get("MAILAGENT_ROLE", "").strip() or "all"
    beat = environ.get("WORKER_BEAT_FILE", "").strip()
    problem = _problem_of_web(port) if role != "worker" else None
    if problem is None and role != "web" and beat:
        problem = _problem_of_worker(Path(beat), ready)
    if problem is None and role != "web" and ready and not beat:
        problem = "WORKER_BEAT_FILE is not set: nobody can tell whether the worker has begun"
    return problem


def _problem_of_web(port: int) -> str | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as problem:
        return f"/healthz at port {port} does not answer: {problem}"
    finally:
        connection.close()
    return None if status == 200 else f"/healthz at port {port} answers {status}"


def _problem_of_worker(beat: Path, ready: bool) -> str | None:
    try:
        silent = time.time() - beat.stat().st_mtime
    except FileNotFoundError:
        # It waits for its database, and says so in the log.
        return "the worker has not begun yet" if ready else None
    if silent <= SILENT_SECONDS:
        return None
    return f"the worker has not beaten for {silent:.0f} seconds"


if __name__ == "__main__":
    sys.exit(find_problem(os.environ, ready="--ready" in sys.argv[1:]))
