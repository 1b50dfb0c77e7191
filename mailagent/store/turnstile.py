"""How many threads of this process work in the database at once.

Python runs one thread at a time, and each statement hands that turn over several times. Dozens of threads that
all work in the database mostly wake each other: they cost more, and get less done, than a few (decision 40).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, cast

import sqlalchemy as sa

AT_ONCE = 6
# Whoever waited for so long goes in anyway: those inside may all wait for a lock, and it may be theirs.
PATIENCE_SECONDS = 1.0

_PLACES = "mailagent_places"


@dataclass(eq=False, slots=True)
class Place:
    """A place inside, or the wish for one until `given`; `thread`: whose."""

    turnstile: Turnstile
    thread: int
    given: threading.Lock = field(default_factory=threading.Lock)

    def leave(self) -> None:
        """Give the place to whoever has waited longest."""
        self.turnstile.take_back(self)


class Turnstile:
    """Lets so many in at once, the others one after the other, and nobody wait for long."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
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
            if self._stuck or self._inside[place.thread]:
                return None
            if self._free:
                self._free -= 1
                self._inside[place.thread] += 1
                return place
            place.given.acquire()
            self._waiting.append(place)
        given = place.given.acquire(timeout=seconds)
        with self._lock:
            if not given and place in self._waiting:
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
            if not self._waiting:
                self._free += 1
                return
            heir = self._waiting.popleft()
            self._inside[heir.thread] += 1
            heir.given.release()


# One for all engines of a process: the app's and DBOS's have the same turn to wait for.
turnstile = Turnstile(AT_ONCE)


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
