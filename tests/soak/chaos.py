"""What goes wrong with processes and the database, at random and counted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.processes import Process, Web, Worker
from tests.soak.server import OwnServer

# A worker that is stopped for so long has lost its lease; longer than any would lose mail's outcome, too.
FROZEN_SECONDS = (3.0, 48.0)
PAUSE_SECONDS = (2.0, 6.0)
GRACE_SECONDS = 30.0


class Chaos:
    """One thread that breaks one thing after the other, and brings back what has ended."""

    def __init__(
        self, workers: list[Worker], webs: list[Web], server: OwnServer, seed: int
    ) -> None:
        self._workers, self._webs, self._server = workers, webs, server
        self._chance = random.Random(seed)
        self._going = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.faults: Counter[str] = Counter()
        self.slowest_end_seconds = 0.0

    def start(self) -> None:
        self._going.set()
        self._thread.start()

    def stop(self) -> None:
        """End it, and let everything live again."""
        self._going.clear()
        self._thread.join()
        self._catch_up(float("inf"))
        for process in self._all:
            if not process.lives:
                process.start_and_wait()

    @property
    def _all(self) -> list[Worker | Web]:
        return [*self._workers, *self._webs]

    def _run(self) -> None:
        kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "worker killed": (4, lambda: self._kill(self._pick(self._workers))),
            "web killed": (2, lambda: self._kill(self._pick(self._webs))),
            "worker stopped and continued": (4, lambda: self._freeze(self._pick(self._workers))),
            "worker asked to end": (3, lambda: self._end(self._pick(self._workers))),
            "web asked to end": (2, lambda: self._end(self._pick(self._webs))),
            "connections cut": (2, self._cut),
            "PostgreSQL restarted": (1, lambda: self._server.restart("fast")),
            "PostgreSQL crashed": (1, lambda: self._server.restart("immediate")),
        }
        weights = [weight for weight, _ in kinds.values()]
        while self._going.is_set():
            kind = self._chance.choices(list(kinds), weights)[0]
            try:
                kinds[kind][1]()
                self.faults[kind] += 1
            except _NobodyLeft:
                pass
            self._going_on(self._chance.uniform(*PAUSE_SECONDS))

    def _going_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._going.is_set():
            self._catch_up(time.monotonic())
            time.sleep(0.1)

    def _catch_up(self, now: float) -> None:
        due = [each for each in self._later if each[0] <= now]
        for each in due:
            self._later.remove(each)
            each[1]()

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, do))

    def _pick(self, of: list[Worker] | list[Web]) -> Process:
        """Return one that is well, if another of its kind is, too."""
        well = [each for each in of if each.lives and not each.frozen]
        if len(well) < 2:
            raise _NobodyLeft
        return self._chance.choice(well)

    def _kill(self, process: Process) -> None:
        process.kill()
        self._after(self._chance.uniform(1, 40), process.start)

    def _freeze(self, process: Process) -> None:
        process.freeze()
        self._after(self._chance.uniform(*FROZEN_SECONDS), process.thaw)

    def _end(self, process: Process) -> None:
        process.ask_to_end()
        try:
            took = process.wait(GRACE_SECONDS)  # what a platform gives it before it kills
        except AssertionError:
            took = GRACE_SECONDS
            self.faults["killed after its time to end was up"] += 1
            process.kill()
        self.slowest_end_seconds = max(self.slowest_end_seconds, took)
        self._after(self._chance.uniform(0, 5), process.start)

    def _cut(self) -> None:
        self._server.cut_connections()


class _NobodyLeft(Exception):
    """Nothing of that kind can be broken just now."""
