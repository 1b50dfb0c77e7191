"""How many threads of this process work in the database at once.

Python runs one thread at a time, and each statement hands that turn over several times. Dozens of threads that
all work in the database mostly wake each other: they cost more, and get less done, than a few (decision 40).
How few are best depends on how long the database takes to answer: `Fitting` finds out (decision 43).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from mailagent.store.one_processor import one_processor

# With a database on the same machine four keep the process busy while some of them wait for the disk (decision
# 48); the more, the longer its answers are under way.
FEWEST, MOST = 4, 6
# Whoever waited for so long goes in anyway: those inside may all wait for a lock, and it may be theirs.
PATIENCE_SECONDS = 1.0

_PLACES = "mailagent_places"


@dataclass(eq=False, slots=True)
class Place:
    """A place inside, or the wish for one until `given`; `thread`: whose."""

    turnstile: Turnstile
    thread: int
    given: threading.Lock | None = None

    def leave(self) -> None:
        """Give the place to whoever has waited longest."""
        self.turnstile.take_back(self)


class Fitting:
    """How many at once fit, from `fewest` to `most`: fewer when the process is busy without pause, since then
    they only wait for each other; more when somebody waits while it has nothing to do.

    `on_share` is told at each look how busy it was."""

    # Of the time of one processor: Python has no use for more than one thread at a time.
    BUSY, AT_REST = 0.8, 0.6
    LOOK_SECONDS = 0.5

    def __init__(
        self,
        fewest: int,
        most: int,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        on_share: Callable[[float], None] = lambda _share: None,
    ) -> None:
        self.at_once, self._fewest, self._most = fewest, fewest, most
        self._now, self._used, self._on_share = now, used, on_share
        self._looked_at, self._used_before, self._somebody_waited = now(), used(), False

    def note_waiting(self) -> None:
        """Say that somebody waits for a place."""
        self._somebody_waited = True

    def look(self) -> None:
        """Look how busy the process was, unless that was done a moment ago."""
        seconds = self._now() - self._looked_at
        if seconds < self.LOOK_SECONDS:
            return
        share = (self._used() - self._used_before) / seconds
        if share > self.BUSY:
            self.at_once = max(self._fewest, self.at_once - 1)
        elif share < self.AT_REST and self._somebody_waited:
            self.at_once = min(self._most, self.at_once + 1)
        self._looked_at, self._used_before, self._somebody_waited = self._now(), self._used(), False
        self._on_share(share)


class Turnstile:
    """Lets so many in at once, the others one after the other, and nobody wait for long."""

    def __init__(self, fitting: Fitting) -> None:
        self._fitting = fitting
        self._taken = 0
        # Reentrant: a connection that was lost may be given back while we are in here.
        self._lock = threading.RLock()
        self._waiting: deque[Place] = deque()
        self._inside: Counter[int] = Counter()
        self._stuck = False

    def enter(self, seconds: float) -> Place | None:
        """Wait for a place, but no longer than this; None: go in without one.

        A thread that is inside already does not wait. Nor does anybody once one has waited in vain, until
        somebody leaves: those inside wait for something themselves.
        """
        place = Place(self, threading.get_ident())
        with self._lock:
            if self._stuck or place.thread in self._inside:
                return None
            if self._taken < self._fitting.at_once:
                self._take(place)
                return place
            self._fitting.note_waiting()
            given = place.given = threading.Lock()
            given.acquire()
            self._waiting.append(place)
        if given.acquire(timeout=seconds):
            return place
        with self._lock:
            if place in self._waiting:
                self._waiting.remove(place)
                self._stuck = True
                return None
        return place

    def take_back(self, place: Place) -> None:
        """Take a place back, and hand it over: else whoever just left would be the first to have it again."""
        with self._lock:
            self._stuck = False
            self._inside[place.thread] -= 1
            if not self._inside[place.thread]:
                del self._inside[place.thread]
            self._taken -= 1
            self._fitting.look()
            while self._waiting and self._taken < self._fitting.at_once:
                heir = self._waiting.popleft()
                self._take(heir)
                if heir.given:
                    heir.given.release()

    def _take(self, place: Place) -> None:
        self._taken += 1
        self._inside[place.thread] += 1


# One for all engines of a process: the app's and DBOS's have the same turn to wait for.
turnstile = Turnstile(Fitting(FEWEST, MOST, on_share=one_processor.look))


class QueuedPool(sa.QueuePool):
    """A pool whose connections are used behind the turnstile; its engine is for `leave_at_return`."""

    def connect(self) -> sa.PoolProxiedConnection:
        place = turnstile.enter(PATIENCE_SECONDS)
        try:
            connection = super().connect()
        except BaseException:
            if place:
                place.leave()
            raise
        if place:
            info = cast("dict[str, Any]", connection.record_info)  # every pooled one has it
            info.setdefault(_PLACES, []).append(place)
        return connection


def leave_at_return(engine: sa.Engine) -> None:
    """Have whoever gives a connection back leave the turnstile."""

    def leave(_connection: Any, record: Any) -> None:
        places = record.record_info.get(_PLACES)
        if places:
            places.pop(0).leave()  # at a detach, somebody else may have the record by now

    for event in ("checkin", "detach"):  # DBOS keeps one that it listens on, and takes it out
        sa.event.listen(engine, event, leave)
