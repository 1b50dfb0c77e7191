"""How long the runs of a worker that was killed wait until they are queued again, or taken by another."""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from mailagent.store.database import Database
from mailagent.store.errors import is_outage
from tests.programs.soak.story import TakeOver

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 120.0

_LEFT = sa.text(
    "SELECT count(*) FROM dbos.workflow_status"
    " WHERE status = 'PENDING' AND executor_id = :worker_id AND started_at_epoch_ms < :killed_at"
)


def count_left(database: Database, worker_id: str, killed_at: float) -> int | None:
    """Return how many runs a worker has that it took before its death, at `killed_at` by the clock; None if
    the database cannot be asked."""
    values = {"worker_id": worker_id, "killed_at": killed_at * 1000}
    try:
        with database.snapshot() as connection:
            return int(connection.scalar(_LEFT, values) or 0)
    except sa.exc.SQLAlchemyError as problem:
        if not is_outage(problem):
            raise
        return None


def see_taken_over(
    worker_id: str, count: Callable[[str, float], int | None], patience: float = PATIENCE_SECONDS
) -> TakeOver:
    """Wait until nothing is left of a worker that was killed just now, at most `patience` seconds."""
    killed, killed_at, runs = time.monotonic(), time.time(), 0
    while True:
        left = count(worker_id, killed_at)
        runs = max(runs, left or 0)
        now = time.monotonic()
        if left == 0 or now - killed > patience:
            return TakeOver(worker_id, killed, now, runs)
        time.sleep(LOOK_SECONDS)
