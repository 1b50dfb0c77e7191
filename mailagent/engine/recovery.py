"""Re-enqueues workflows of workers that died or run another version, and finds schedules that stopped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

import sqlalchemy as sa

from mailagent.engine.client import Part
from mailagent.engine.names import (
    ACTIVE,
    APPLICATION_VERSION,
    INTERNAL_QUEUE,
    QUEUE_OF,
    SCHEDULED,
    SWEEP,
)

_OURS = (*QUEUE_OF, *SCHEDULED)

# Named one by one in a statement, which takes only so many.
_MOST_AT_ONCE = 1000

# A sweep each minute, one that was slow, and the time that a worker takes to start.
LATE_AFTER = timedelta(minutes=3)


class Recovery(Part):
    """Hands runs from one worker to the others, and begins a sweep where the schedule did not.

    As DBOS's own recovery does (`SystemDatabase.reenqueue_for_recovery`): the run keeps its queue and
    its count of attempts, and loses its owner, so that whoever had it can record nothing more. Unlike
    that one, this is a single statement in the caller's transaction: it is done for all runs or for none,
    and a run that another worker has taken meanwhile is nobody's orphan any more.
    """

    def take_over_orphans(
        self, connection: sa.Connection, alive: sa.Select[str], may: sa.ColumnElement[bool]
    ) -> int:
        """Queue again, if `may` holds, what was begun by workers that are not among those alive.

        Returns how many runs that were, those of the schedule not counted.
        """
        executor = sa.func.coalesce(self._runs.c.executor_id, "")
        # Two workers that look at once share the runs between them instead of waiting for each other.
        return self._queue_again(connection, sa.and_(executor.not_in(alive), may), skip_locked=True)

    def give_back(self, connection: sa.Connection, worker_id: str) -> int:
        """Queue again what a worker has begun and will not end. Returns how many runs that were."""
        whose = self._runs.c.executor_id == worker_id
        return self._queue_again(connection, whose, skip_locked=False)

    def take_up(self, connection: sa.Connection, worker_id: str) -> int:
        """Queue again what a process of this worker had begun when it died, for the one that starts. The engine
        does the same a run at a time; what somebody has locked is left to that. Returns how many runs."""
        whose = self._runs.c.executor_id == worker_id
        return self._queue_again(connection, whose, skip_locked=True)

    def find_taken(
        self, connection: sa.Connection, worker_id: str, ago: timedelta
    ) -> frozenset[str]:
        """Return the ids of the runs that a worker took longer `ago` than that and that have not ended."""
        runs = self._runs.c
        found = sa.select(runs.workflow_uuid).where(
            runs.status == "PENDING", runs.name.in_(_OURS), self._was_taken(worker_id, ago)
        )
        return frozenset(connection.scalars(found))

    def queue_unattended(
        self, connection: sa.Connection, worker_id: str, run_ids: Iterable[str], ago: timedelta
    ) -> int:
        """Queue again, of these runs, what `find_taken` still finds; the rest of very many stays for the next
        time. Returns how many runs that were, those of the schedule not counted."""
        some = list(islice(run_ids, _MOST_AT_ONCE))
        whose = sa.and_(self._runs.c.workflow_uuid.in_(some), self._was_taken(worker_id, ago))
        return self._queue_again(connection, whose, skip_locked=True)

    def _was_taken(self, worker_id: str, ago: timedelta) -> sa.ColumnElement[bool]:
        runs, milliseconds = self._runs.c, int(ago.total_seconds() * 1000)
        return sa.and_(
            runs.executor_id == worker_id,
            runs.started_at_epoch_ms <= self._now_milliseconds() - milliseconds,
        )

    def _queue_again(
        self, connection: sa.Connection, whose: sa.ColumnElement[bool], skip_locked: bool
    ) -> int:
        runs = self._runs.c
        found = (
            sa.select(runs.workflow_uuid)
            .where(runs.status == "PENDING", runs.name.in_(_OURS), whose)
            .with_for_update(skip_locked=skip_locked)
        )
        queued = connection.scalars(
            sa.update(self._runs)
            .where(runs.workflow_uuid.in_(found), runs.status == "PENDING")
            .values(
                status="ENQUEUED",
                owner_xid=None,
                started_at_epoch_ms=None,
                updated_at=self._now_milliseconds(),
                queue_name=sa.func.coalesce(runs.queue_name, INTERNAL_QUEUE),
            )
            .returning(runs.name)
        )
        return sum(name in QUEUE_OF for name in queued)

    def _now_milliseconds(self) -> sa.ColumnElement[int]:
        if self._is_sqlite:
            return sa.cast(sa.func.strftime("%s", "now") * 1000, sa.BigInteger)
        return sa.cast(sa.func.extract("epoch", sa.func.now()) * 1000, sa.BigInteger)

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

    def enqueue_sweep(self, connection: sa.Connection, now: datetime) -> None:
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

    def count_of_other_versions(self, connection: sa.Connection) -> dict[str, int]:
        """Return how many runs that have not ended only workers of another application version take up,
        by that version."""
        runs = self._runs.c
        query = sa.select(runs.application_version, sa.func.count()).where(
            runs.status.in_(sorted(ACTIVE)), runs.application_version != APPLICATION_VERSION
        )
        found = connection.execute(query.group_by(runs.application_version))
        return {str(version): int(count) for version, count in found}

    def latest_version(self) -> str | None:
        """Return the application version whose workers get new runs: the one that was first seen last.
        None before any worker has run."""
        known = self._client.list_application_versions()  # the latest first
        return known[0]["version_name"] if known else None
