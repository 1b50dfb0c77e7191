"""Whether a function's time grows with the length of its input, and not faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", str, bytes)

FACTOR = 8
# Eight times the input may take eight times as long; a square would take 64 times.
TOLERATED = 24
UNMEASURABLE_SECONDS = 0.01


def assert_linear(function: Callable[[T], object], piece: T, length: int) -> None:
    """Fail if `function` takes far more than `FACTOR` times as long for so much more of `piece`."""
    small = max(_seconds(function, _repeated(piece, length)), UNMEASURABLE_SECONDS / FACTOR)
    large = _seconds(function, _repeated(piece, length * FACTOR))
    assert large < UNMEASURABLE_SECONDS or large < small * TOLERATED, (small, large)


def _repeated(piece: T, length: int) -> T:
    return (piece * (length // len(piece) + 1))[:length]


def _seconds(function: Callable[[T], object], value: T) -> float:
    best = float("inf")
    for _attempt in range(3):
        begun = time.process_time()
        function(value)
        best = min(best, time.process_time() - begun)
    return best
