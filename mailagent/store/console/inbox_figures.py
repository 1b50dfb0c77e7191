"""The inbox in figures: how long each list is, what of it is newest, and which outages there are.

Nothing in it is about whoever asks, so that one reading answers everybody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.operations.circuit_breaker import away_name
from mailagent.store.console.inbox import Asked, Lists, Waiting
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import list_newest


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted at a moment. `newest` holds the times of the newest lines, oldest first; not of
    the mail that waits for the agent, which is no person's."""

    at: datetime
    counts: Mapping[str, str]
    newest: Mapping[str, tuple[datetime, ...]]
    outages: tuple[str, ...]

    def newer(self, since: datetime) -> dict[str, int]:
        """Return how many lines of each list came since a time; no further than a bit beyond 100."""
        return {
            name: len(moments) - bisect_right(moments, since)
            for name, moments in self.newest.items()
        }


def read(connection: sa.Connection, failed_runs: sa.Select[Any], now: datetime) -> Figures:
    """Count all lists."""
    lists = Lists(connection, failed_runs)
    people = [each for each in Waiting if each is not Waiting.UNANSWERED]
    return Figures(
        at=now,
        counts={each.value: lists.count(Asked(each)).words for each in Waiting},
        newest={each.value: list_newest(connection, lists.sources(Asked(each))) for each in people},
        outages=(
            *(each.matter.value for each in incidents.list_open(connection) if each.is_outage),
            *(away_name(each) for each in circuit_breakers.list_open(connection)),
        ),
    )
