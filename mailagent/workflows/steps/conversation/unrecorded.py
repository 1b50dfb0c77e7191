"""Answers of a provider that a step has got and could not record: its next try records them, without asking
for them again. They are gone with the process; then a step asks again."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

from dbos import DBOS

T = TypeVar("T")

_Place = tuple[str, int]

# The tries of a step take five minutes. What is older is of one that has given up; it may hold a mail's words.
KEPT_SECONDS = 900.0


class Unrecorded(Generic[T]):
    """What one step has got, by the run and the place in it where it stands."""

    def __init__(self) -> None:
        self._kept: dict[_Place, tuple[float, T]] = {}

    def find(self) -> T | None:
        """Return what an earlier try of this step got, or None. A replay is no further try."""
        place = _place()
        if place is None:
            return None
        status = DBOS.step_status
        if status is None or not status.current_attempt:
            self._kept.pop(place, None)
        found = self._kept.get(place)
        return found[1] if found else None

    def keep(self, got: T) -> None:
        """Keep what was got until `forget`."""
        place, now = _place(), time.monotonic()
        for old, (since, _) in list(self._kept.items()):
            if now - since > KEPT_SECONDS:
                self._kept.pop(old, None)
        if place is not None:
            self._kept[place] = now, got

    def forget(self) -> None:
        """Let go of what is on record now."""
        place = _place()
        if place is not None:
            self._kept.pop(place, None)


def _place() -> _Place | None:
    run_id, number = DBOS.workflow_id, DBOS.step_id
    return None if run_id is None or number is None else (run_id, number)
