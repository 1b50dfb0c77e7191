"""The health check of a container: `python -m mailagent.healthcheck`. Exits with 1 and a message on a problem.

With `--ready`, a worker that still waits for its database is a problem, too. The database itself is not
checked, because a restart does not help when it is away; use `/readyz`. This module imports nothing of the app,
because the check runs every few seconds.
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
# A heartbeat comes every four to six seconds, later if the database hangs.
SILENT_SECONDS = 90.0


def find_problem(
    environ: Mapping[str, str], port: int = PORT, *, ready: bool = False
) -> str | None:
    """Return what is wrong with the process of this environment, or None.

    `ready`: a worker without a heartbeat is a problem.
    """
    role = environ.get("MAILAGENT_ROLE", "").strip() or "all"
    beat = environ.get("WORKER_BEAT_FILE", "").strip()
    problem = _problem_of_web(port) if role != "worker" else None
    if problem is None and role != "web" and beat:
        problem = _problem_of_worker(Path(beat), ready)
    if problem is None and role != "web" and ready and not beat:
        problem = "WORKER_BEAT_FILE is not set, so it is unknown whether the worker has started"
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
        # The worker waits for its database, and logs that.
        return "the worker has not started yet" if ready else None
    if silent <= SILENT_SECONDS:
        return None
    return f"the worker's last heartbeat was {silent:.0f} seconds ago"


if __name__ == "__main__":
    sys.exit(find_problem(os.environ, ready="--ready" in sys.argv[1:]))
