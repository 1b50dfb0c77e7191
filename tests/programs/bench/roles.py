"""What each role needs before it has anything to do: time to start, memory, and what it has loaded."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.processes import Process, in_a_process
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.loaded import Loaded, look
from tests.programs.bench.measured import Aim, Measured
from tests.programs.bench.meter import MB, Memory, read_memory

ROLES = ("web", "worker", "all")
# Packages that only a process needs which asks the model or sends mail.
_HEAVY = ("openai", "sendgrid", "httpx2", "pydantic")
_SECONDS = {"web": 2.0, "worker": 3.0}
_MEGABYTES = {"web": 120.0, "worker": 180.0}

Idle = tuple[float, Memory]  # seconds to start, in the median; memory with nothing to do


def measure(ground: Ground) -> Measured:
    with ground.database() as url:
        idle = {role: _measure(ground, url, role) for role in ROLES}
        [post] = prepare(QUESTION, 1, url, ground.key)
        loaded = in_a_process(look, ground.environment(url, "web"), post.body, post.headers)
    heavy = [name for name in _HEAVY if name in loaded.modules]
    head = f"{'role':<8}{'start s':>9}{'PSS MB':>9}{'RSS MB':>9}{'largest':>9}{'processes':>11}{'threads':>9}"
    last = (
        f"a web process has loaded {len(loaded.modules)} modules"
        f" ({', '.join(heavy) or 'none of ' + ', '.join(_HEAVY)});"
        f" engine {'started' if loaded.engine else 'not started'}"
    )
    lines = [head, *(_line(role, each) for role, each in idle.items()), last]
    aims = [
        *(Aim(f"{role}, start", idle[role][0], limit, "s") for role, limit in _SECONDS.items()),
        *(
            Aim(f"{role}, memory (PSS)", idle[role][1].pss / MB, limit, "MB")
            for role, limit in _MEGABYTES.items()
        ),
    ]
    return Measured("\n".join(lines), aims, _wrong(loaded))


def _measure(ground: Ground, url: str, role: str) -> Idle:
    seconds = []
    for number in range(1, ground.sizes.starts + 1):
        began = time.monotonic()
        with _started(ground, url, role) as child:
            seconds.append(time.monotonic() - began)
            if number == ground.sizes.starts:
                time.sleep(ground.sizes.idle_seconds)
                return statistics.median(seconds), read_memory(child)
    raise ValueError("a role has to be started at least once")


@contextmanager
def _started(ground: Ground, url: str, role: str) -> Iterator[Process]:
    if role == "worker":
        with ground.worker(url) as child:
            yield child
        return
    with ground.web(url, role) as (child, _):
        yield child


def _line(role: str, idle: Idle) -> str:
    seconds, memory = idle
    return (
        f"{role:<8}{seconds:>9.2f}{memory.pss / MB:>9.1f}{memory.rss / MB:>9.1f}"
        f"{memory.largest_rss / MB:>9.1f}{memory.processes:>11}{memory.threads:>9}"
    )


def _wrong(loaded: Loaded) -> list[str]:
    wrong = ["a web process has loaded openai"] if "openai" in loaded.modules else []
    return [*wrong, "a web process has started the engine"] if loaded.engine else wrong
