"""How many runs wait and are at work, for those who watch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa

from mailagent.engine.client import Connected
from mailagent.engine.names import ACTIVE, QUEUE_OF, SCHEDULED

OTHER_QUEUE = "other"  # that of the schedule, which DBOS names


class Depths(Connected):
    """Counts runs that have not ended, each by an index of DBOS's."""

    def count_active(self, connection: sa.Connection) -> Counter[tuple[str, str, str]]:
        """Return how many there are of each queue, workflow and status; 0 where there are none."""
        nothing = {(QUEUE_OF[each], each, status): 0 for each in QUEUE_OF for status in ACTIVE}
        found = Counter(nothing)
        for statuses in (("ENQUEUED", "PENDING"), ("DELAYED",)):
            for queue, workflow, status, number in connection.execute(self._active(statuses)):
                if workflow in (*QUEUE_OF, *SCHEDULED):
                    known = queue if queue in QUEUE_OF.values() else OTHER_QUEUE
                    found[known, workflow, status] += number
        return found

    def _active(self, statuses: tuple[str, ...]) -> sa.Select[Any]:
        runs = self._runs.c
        # As constants: a partial index is found by them only.
        named: list[Any] = [sa.literal_column(f"'{status}'") for status in statuses]
        return (
            sa.select(runs.queue_name, runs.name, runs.status, sa.func.count())
            .where(runs.status.in_(named))
            .group_by(runs.queue_name, runs.name, runs.status)
        )
