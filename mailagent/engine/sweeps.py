"""Whether the schedule works. DBOS begins a sweep for each minute of the machines' own clocks, once: a worker
whose clock was ahead has used up the minutes to come, and nobody sweeps until they are over."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent.engine.client import Connected
from mailagent.engine.names import ACTIVE, APPLICATION_VERSION, INTERNAL_QUEUE, SWEEP

# A sweep each minute, one that was slow, and the time that a worker takes to start.
LATE_AFTER = timedelta(minutes=3)


class Sweeps(Connected):
    """Begins a sweep where the schedule did not."""

    def is_sweep_late(self, connection: sa.Connection, now: datetime) -> bool:
        """Return whether no sweep has ended lately or is at work. `now` is the database's time, as is the
        end of a run; its start is the time of the machine that began it."""
        runs = self._runs.c
        late = int((now - LATE_AFTER).timestamp() * 1000)
        soon = int((now + LATE_AFTER).timestamp() * 1000)
        ended = sa.and_(runs.completed_at.between(late, soon), runs.name == SWEEP)
        at_work = sa.and_(runs.status.in_(sorted(ACTIVE)), runs.name == SWEEP)
        question = sa.select(sa.literal(1)).limit(1)
        return not any(connection.scalar(question.where(found)) for found in (ended, at_work))

    def ring_sweep(self, connection: sa.Connection, now: datetime) -> None:
        """Queue a sweep; of several workers that do so within a minute, one does."""
        due = now.replace(second=0, microsecond=0).isoformat()
        self._client.enqueue_in_transaction(
            connection,
            {
                "workflow_name": SWEEP,
                "queue_name": INTERNAL_QUEUE,
                "workflow_id": f"sched-{SWEEP}-{due}-late",
                "app_version": APPLICATION_VERSION,
            },
            due,
            None,
        )
