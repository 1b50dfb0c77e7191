"""A planned death: the process kills itself with SIGKILL at one point of one step or request, once.

For the demo's story and the crash tests; production refuses to start with it.
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
from mailagent.workflows import launch  # loading it is what makes the steps known
from mailagent.workflows.steps import recording

__all__ = ["AROUND_COMMIT", "TRACE", "launch", "plan"]

# A POST is named by its rule, such as `POST /approvals/<token>`. Before the commit nothing has
# happened; after it everything has, and whoever posted has no answer yet.
AROUND_COMMIT = ("before commit", "after commit")
TRACE = "trace"  # instead of a point: nobody dies, and the marker lists what was come to

_COMMITTED = "mailagent committed"  # what a connection bears until it goes back to its pool


def plan(app: Flask, crash_at: str, marker: Path | None) -> Callable[[], None]:
    """Die when `crash_at` is reached; return what calls it off.

    `crash_at` is `<step>:<point>`, points as in `recording.CRASH_POINTS`, or `POST <rule>:<point>`,
    points as in `AROUND_COMMIT`; with `:<n>` after it the n-th time, else the first. `marker` is a
    file that is made just before dying; where it exists, nobody dies any more. Raises ValueError for
    a point that does not exist.
    """
    if crash_at == TRACE:
        if marker is None:
            raise ValueError("MAILAGENT_CRASH_AT is trace; set MAILAGENT_CRASH_ONCE to a file")
        arrive = _note_in(marker)
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

    def call_off() -> None:
        unwatch()
        for event, hear in watched.items():
            sa.event.remove(engine, event, hear)

    return call_off


def _parse(app: Flask, crash_at: str) -> tuple[str, str, int]:
    found = re.fullmatch(r"(.+?):([a-z ]+)(?::(\d+))?", crash_at)
    name, point, number = found.groups() if found else (crash_at, "", None)
    points = recording.CRASH_POINTS.get(name, ())
    if name in {f"POST {rule.rule}" for rule in app.url_map.iter_rules() if _is_post(rule.methods)}:
        points = AROUND_COMMIT
    if point not in points:
        raise ValueError(
            f"MAILAGENT_CRASH_AT is {crash_at!r}; {name!r} has the points {', '.join(points) or 'none'}"
        )
    return name, point, int(number or 1)


def _is_post(methods: set[str] | None) -> bool:
    return "POST" in (methods or ())


def _note_in(path: Path) -> recording.Watcher:
    lock = threading.Lock()

    def note(name: str, at: str) -> None:
        with lock, path.open("a") as file:
            file.write(f"{name}:{at}\n")

    return note


def _die_at(step: str, point: str, number: int, marker: Path | None) -> recording.Watcher:
    come_by: Counter[str] = Counter()
    lock = threading.Lock()

    def die(name: str, at: str) -> None:
        if (name, at) != (step, point):
            return
        with lock:
            come_by[step] += 1
            if come_by[step] != number or (marker is not None and marker.exists()):
                return
            if marker is not None:
                marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def _before_commit(arrive: recording.Watcher) -> Callable[[sa.Connection], None]:
    def commit(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(READS):
            return  # PostgreSQL's snapshots end with one, too
        if _is_of_request():
            connection.info[_COMMITTED] = True
            arrive(_here(), AROUND_COMMIT[0])

    return commit


def _is_of_request() -> bool:
    return has_request_context() and request.url_rule is not None


def _after_commit(arrive: recording.Watcher) -> Callable[[Any, Any], None]:
    # A connection goes back to its pool at the end of `Database.transaction`, right after the commit.
    def checkin(_connection: Any, record: Any) -> None:
        if record.info.pop(_COMMITTED, False) and has_request_context():
            arrive(_here(), AROUND_COMMIT[1])

    return checkin


def _here() -> str:
    return f"{request.method} {request.url_rule}"
