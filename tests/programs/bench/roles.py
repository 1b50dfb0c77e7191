"""What each role needs before it has anything to do: time to start, memory, and what it has loaded."""

from __future__ import annotations

import base64
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.processes import Process, run_script
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.memory import MB, Memory, read_memory
from tests.programs.bench.posting import Post
from tests.programs.bench.told import Aim, Told

ROLES = ("web", "worker", "all")
# Packages that only a process needs which asks the model or sends mail.
_HEAVY = ("openai", "sendgrid", "httpx2", "pydantic")
_SECONDS = {"web": 2.0, "worker": 3.0}
_MEGABYTES = {"web": 120.0, "worker": 180.0}


@dataclass(frozen=True, slots=True)
class Idle:
    """A role with nothing to do. `start_seconds`: the median, until it is ready."""

    start_seconds: float
    memory: Memory


def measure(ground: Ground) -> Told:
    with ground.database() as url:
        idle = {role: _measure(ground, url, role) for role in ROLES}
        [post] = prepare(QUESTION, 1, url, ground.stable.key)
        loaded = look_at_web(ground.stable.environment(url, "web"), post)
    heavy = [name for name in _HEAVY if name in loaded["modules"]]
    lines = [
        f"{'role':<8}{'start s':>9}{'PSS MB':>9}{'RSS MB':>9}{'largest':>9}{'processes':>11}{'threads':>9}"
    ]
    lines += [_line(role, each) for role, each in idle.items()]
    lines.append(
        f"a web process has loaded {len(loaded['modules'])} modules"
        f" ({', '.join(heavy) or 'none of ' + ', '.join(_HEAVY)});"
        f" engine {'started' if loaded['engine'] else 'not started'}"
    )
    figures = {role: asdict(each) for role, each in idle.items()} | {"web_modules": loaded}
    return Told("\n".join(lines), figures, _aims(idle), _wrong(loaded))


def _measure(ground: Ground, url: str, role: str) -> Idle:
    seconds = []
    for number in range(1, ground.sizes.starts + 1):
        began = time.monotonic()
        with _started(ground, url, role) as child:
            seconds.append(time.monotonic() - began)
            if number == ground.sizes.starts:
                time.sleep(ground.sizes.idle_seconds)  # what is measured is a rest of this length
                return Idle(statistics.median(seconds), read_memory(child))
    raise ValueError("a role has to be started at least once")


@contextmanager
def _started(ground: Ground, url: str, role: str) -> Iterator[Process]:
    if role == "worker":
        with ground.stable.worker(url) as child:
            yield child
        return
    with ground.stable.web(url, role) as (child, _):
        yield child


def look_at_web(environment: Mapping[str, str], post: Post) -> dict[str, Any]:
    """Return which modules a web process has loaded once it has served something, a mail among it."""
    job = {
        "environment": dict(environment),
        "body": base64.b64encode(post.body).decode(),
        "headers": post.headers,
    }
    loaded: dict[str, Any] = run_script("tests.programs.bench.loaded", job)
    return loaded


def _line(role: str, idle: Idle) -> str:
    memory = idle.memory
    return (
        f"{role:<8}{idle.start_seconds:>9.2f}{memory.pss / MB:>9.1f}{memory.rss / MB:>9.1f}"
        f"{memory.largest_rss / MB:>9.1f}{memory.processes:>11}{memory.threads:>9}"
    )


def _aims(idle: dict[str, Idle]) -> list[Aim]:
    starts = [
        Aim(f"{role}, start", idle[role].start_seconds, limit, "s")
        for role, limit in _SECONDS.items()
    ]
    memory = [
        Aim(f"{role}, memory (PSS)", idle[role].memory.pss / MB, limit, "MB")
        for role, limit in _MEGABYTES.items()
    ]
    return starts + memory


def _wrong(loaded: dict[str, Any]) -> list[str]:
    wrong = [f"a web process has loaded {name}" for name in _HEAVY[:1] if name in loaded["modules"]]
    return [*wrong, "a web process has started the engine"] if loaded["engine"] else wrong
