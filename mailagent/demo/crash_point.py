"""A planned crash: the process kills itself with SIGKILL at one point of one step or request, once.

For the demo's story and the crash tests. Production refuses to start with it.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import Flask, has_request_context, request

from mailagent import services
from mailagent.store.database import READS
from mailagent.workflows import launch  # importing it registers the steps
from mailagent.workflows.steps import recording

__all__ = ["AROUND_COMMIT", "TRACE", "launch", "plan"]

# A POST is named by its rule, such as `POST /approvals/<token>`. The process dies just before the commit
# of the request, or after it and before the response.
AROUND_COMMIT = ("before commit", "after commit")
TRACE = "trace"  # instead of a point: write every point that was reached into the marker file

_COMMITTED = "mailagent committed"  # set on a connection until it returns to its pool


def plan(app: Flask, crash_at: str, marker: Path | None) -> Callable[[], None]:
    """Kill this process when it reaches `crash_at`; return a function that cancels the plan.

    `crash_at` is `<step>:<point>` (points: `recording.CRASH_POINTS`) or `POST <rule>:<point>` (points:
    `AROUND_COMMIT`). `:<n>` after it means the n-th time; the default is the first. The process creates
    the file `marker` just before it dies, and never dies while that file exists. Raises ValueError for an
    unknown point.
    """
    if crash_at == TRACE:
        if marker is None:
            raise ValueError("MAILAGENT_CRASH_AT is trace; set MAILAGENT_CRASH_ONCE to a file")
        arrive = _trace_to(marker)
    else:
        arrive = _die_at(*_parse(app, crash_at), marker)
    unwatch = recording.watch(arrive)
    engine = services.current().database.engine
    watched: dict[str, Callable[..., Any]] = {
        "commit": _before_commit(arrive),
        "checkin": _after_commit(arrive),
    }
    for event, hear in watched.items():
        sa.event.listen(engine, event, hear)

    def cancel() -> None:
        unwatch()
        for event, hear in watched.items():
            sa.event.remove(engine, event, hear)

    return cancel


def _parse(app: Flask, crash_at: str) -> tuple[str, str, int]:
    found = re.fullmatch(r"(.+?):([a-z ]+)(?::(\d+))?", crash_at)
    name, point, number = found.groups() if found else (crash_at, "", None)
    posts = {
        f"POST {rule.rule}" for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())
    }
    points = AROUND_COMMIT if name in posts else recording.CRASH_POINTS.get(name, ())
    if point not in points:
        raise ValueError(
            f"MAILAGENT_CRASH_AT is {crash_at!r}; {name!r} has the points {', '.join(points) or 'none'}"
        )
    return name, point, int(number or 1)


def _trace_to(path: Path) -> recording.Watcher:
    lock = threading.Lock()

    def note(name: str, at: str) -> None:
        with lock, path.open("a") as file:
            file.write(f"{name}:{at}\n")

    return note


def _die_at(step: str, point: str, number: int, marker: Path | None) -> recording.Watcher:
    times: Counter[str] = Counter()
    lock = threading.Lock()

    def die(name: str, at: str) -> None:
        if (name, at) != (step, point):
            return
        with lock:
            times[step] += 1
            if times[step] != number or (marker is not None and marker.exists()):
                return
            if marker is not None:
                marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def _before_commit(arrive: recording.Watcher) -> Callable[[sa.Connection], None]:
    def commit(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(READS):
            return  # on PostgreSQL a snapshot also ends with a commit
        if has_request_context() and request.url_rule is not None:
            connection.info[_COMMITTED] = True
            arrive(f"{request.method} {request.url_rule}", AROUND_COMMIT[0])

    return commit


def _after_commit(arrive: recording.Watcher) -> Callable[[Any, Any], None]:
    # A connection returns to its pool at the end of `Database.transaction`, right after the commit.
    def checkin(_connection: Any, record: Any) -> None:
        if record.info.pop(_COMMITTED, False) and has_request_context():
            arrive(f"{request.method} {request.url_rule}", AROUND_COMMIT[1])

    return checkin
