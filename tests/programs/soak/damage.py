"""The names of what a soak may find broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Damage(StrEnum):
    LOST = "lost"
    DOUBLED = "doubled"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Finding:
    """What is broken, how, and what it is about."""

    damage: Damage
    what: str


Found = Iterator[tuple[Damage, str]]
