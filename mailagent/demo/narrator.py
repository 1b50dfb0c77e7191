"""Tells a story line by line, and stops it at the first fact that does not hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LOOK_EVERY_SECONDS = 0.1


class FactMissing(Exception):
    """Something that the story promises is not so; the text says what."""


class Narrator:
    """`patience_seconds`: how long one thing may take to happen."""

    def __init__(self, say: Callable[[str], None], patience_seconds: float) -> None:
        self._say = say
        self._patience_seconds = patience_seconds
        self.facts = 0

    def title(self, title: str) -> None:
        """Begin a chapter."""
        self._say(f"\n{title}")

    def fact(self, fact: str, holds: bool) -> None:
        """Tell a fact. Raises FactMissing when it does not hold."""
        if not holds:
            raise FactMissing(fact)
        self.facts += 1
        self._say(f"  ✓ {fact}")

    def wait_for(self, fact: str, look: Callable[[], T | None]) -> T:
        """Wait until `look` finds something, and return it. Raises FactMissing when patience ends."""
        deadline = time.monotonic() + self._patience_seconds
        while not (found := look()) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_SECONDS)
        if not found:
            raise FactMissing(fact)
        self.fact(fact, True)
        return found
