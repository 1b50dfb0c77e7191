"""What goes wrong with processes and the database: each kind twice, then at random; counted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.processes import Process, Web, Worker
from tests.programs.soak.server import OwnServer
from tests.programs.soak.story import End, Story
from tests.programs.soak.take_overs import see_taken_over

# A worker that is stopped for so long has lost its lease; longer than any would lose mail's outcome, too.
FROZEN_SECONDS = (3.0, 48.0)
PAUSE_SECONDS = (2.0, 6.0)
GRACE_SECONDS = 30.0
# How long after a restart the database still counts as away: sessions come back one by one.
RETURN_SECONDS = 5.0
SHARES = {
    "worker killed": 4,
    "web killed": 2,
    "worker stopped and continued": 4,
    "worker asked to end": 3,
    "web asked to end": 2,
    "connections cut": 2,
    "PostgreSQL restarted": 1,
    "PostgreSQL crashed": 1,
}


class Chaos:
    """One thread that breaks one thing after the other, and brings back what has ended."""

    def __init__(
        self,
        workers: list[Worker],
        webs: list[Web],
        server: OwnServer,
        seed: int,
        story: Story,
        count_left: Callable[[str, float], int | None],
    ) -> None:
        """`count_left` returns how many runs a worker still has of those before a time."""
        self._workers, self._webs, self._server, self._story = workers, webs, server, story
        self._count_left = count_left
        self._chance = random.Random(seed)
        self._going = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._ending: list[Process] = []
        self._waits: list[threading.Thread] = []
        self.faults: Counter[str] = Counter()
        self.slowest_end_seconds = 0.0

    def start(self) -> None:
        self._going.set()
        self._thread.start()

    def stop(self) -> None:
        """End it, and let everything live again."""
        self._going.clear()
        self._thread.join()
        for thread in self._waits:
            thread.join()
        self._catch_up(float("inf"))
        for process in self._all:
            if not process.lives:
                process.start_and_wait()

    @property
    def _all(self) -> list[Worker | Web]:
        return [*self._workers, *self._webs]

    def _run(self) -> None:
        kinds: dict[str, Callable[[], None]] = {
            "worker killed": lambda: self._kill(self._pick(self._workers)),
            "web killed": lambda: self._kill(self._pick(self._webs)),
            "worker stopped and continued": lambda: self._freeze(self._pick(self._workers)),
            "worker asked to end": lambda: self._end(self._pick(self._workers)),
            "web asked to end": lambda: self._end(self._pick(self._webs)),
            "connections cut": self._cut,
            "PostgreSQL restarted": lambda: self._restart("fast"),
            "PostgreSQL crashed": lambda: self._restart("immediate"),
        }
        due = plan(self._chance)
        while self._going.is_set():
            kind = (
                due.pop(0) if due else self._chance.choices(list(SHARES), list(SHARES.values()))[0]
            )
            try:
                kinds[kind]()
                self.faults[kind] += 1
            except _NobodyLeft:
                if kind not in due:
                    due.append(kind)
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
        well = [each for each in of if each.lives and not each.frozen and each not in self._ending]
        if len(well) < 2:
            raise _NobodyLeft
        return self._chance.choice(well)

    def _kill(self, process: Process) -> None:
        process.kill()
        if isinstance(process, Worker):
            self._beside(self._see_it_taken_over, process)
        self._after(self._chance.uniform(1, 40), process.start)

    def _freeze(self, process: Process) -> None:
        process.freeze()
        self._after(self._chance.uniform(*FROZEN_SECONDS), process.thaw)

    def _end(self, process: Process) -> None:
        """Ask it to end, and go on meanwhile: it may have to end just when something else breaks."""
        self._ending.append(process)
        self._beside(self._see_it_end, process)

    def _beside(self, watch: Callable[[Process], None], process: Process) -> None:
        thread = threading.Thread(target=watch, args=(process,), daemon=True)
        self._waits.append(thread)
        thread.start()

    def _see_it_taken_over(self, process: Process) -> None:
        self._story.take_overs.append(see_taken_over(process.name, self._count_left))

    def _see_it_end(self, process: Process) -> None:
        began = time.monotonic()
        process.ask_to_end()
        killed = False
        try:
            process.wait(GRACE_SECONDS)  # what a platform gives it before it kills
        except AssertionError:
            killed = True
            process.kill()
        ended = time.monotonic()
        self._story.ends.append(End(process.name, began, ended, killed))
        self.slowest_end_seconds = max(self.slowest_end_seconds, ended - began)
        self._ending.remove(process)
        self._after(PAUSE_SECONDS[0], process.start)

    def _cut(self) -> None:
        self._server.cut_connections()

    def _restart(self, mode: str) -> None:
        began = time.monotonic()
        self._server.restart(mode)
        self._story.outages.append((began, time.monotonic() + RETURN_SECONDS))


def plan(chance: random.Random) -> list[str]:
    """Return what must go wrong whatever chance does later: each kind, and then each kind again."""
    return [kind for _ in range(2) for kind in chance.sample(list(SHARES), len(SHARES))]


class _NobodyLeft(Exception):
    """Nothing of that kind can be broken just now."""
