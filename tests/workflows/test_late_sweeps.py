"""The safety net itself: clocks that were wrong can use up the schedule's minutes, and sweeps go on."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent.workflows import recovery
from tests.harness import Harness, running, wait_until
from tests.workflows.trouble import table_of_runs


def sweeps(shop: Harness) -> list[str]:
    found = shop.rows(
        f"SELECT workflow_uuid, status FROM {table_of_runs(shop)} WHERE name = 'sweep'"
    )
    return [row.status for row in found if row.workflow_uuid.endswith("-late")]


def test_a_sweep_is_begun_where_the_schedule_begins_none_and_only_one(shop: Harness) -> None:
    assert recovery.enqueue_late_sweep()
    assert not recovery.enqueue_late_sweep()
    assert len(sweeps(shop)) == 1
    with running(shop):
        wait_until(lambda: sweeps(shop) == ["SUCCESS"], 30, "the sweep to end")
    assert not recovery.enqueue_late_sweep()


@pytest.mark.parametrize(
    ("ended_ago", "late"),
    [
        (timedelta(seconds=170), False),
        (timedelta(seconds=190), True),
        (timedelta(hours=-1), True),  # by a database whose clock was set back since
    ],
    ids=["lately", "long ago", "in the future"],
)
def test_a_sweep_counts_for_three_minutes_by_the_databases_clock(
    shop: Harness, ended_ago: timedelta, late: bool
) -> None:
    assert recovery.enqueue_late_sweep()
    ended_at = shop.live.now() - ended_ago
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(
                f"UPDATE {table_of_runs(shop)} SET status = 'SUCCESS', completed_at = :at"
                " WHERE name = 'sweep'"
            ),
            {"at": int(ended_at.timestamp() * 1000)},
        )
        assert shop.live.workflow_client.tables.is_sweep_late(connection, shop.live.now()) is late
