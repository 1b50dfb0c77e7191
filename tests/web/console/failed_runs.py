"""Failed workflows and lost mails for the console to show."""

from __future__ import annotations

from datetime import timedelta

from werkzeug.test import TestResponse

from mailagent.store.ids import new_id
from mailagent.store.pagination import microseconds
from mailagent.web.console.inbox import CACHE, CachedFigures
from tests.harness import Harness
from tests.store.lost_mail import lose_mail


def tables_of_runs(harness: Harness) -> str:
    sqlite = harness.live.database.engine.dialect.name == "sqlite"
    return "workflow_status" if sqlite else "dbos.workflow_status"


def fail_run(harness: Harness, minutes_ago: int = 5) -> str:
    """Have a run that failed in DBOS's table, and return its id."""
    run_id = new_id("x").replace("x_", "delivery-")
    failed = harness.live.now() - timedelta(minutes=minutes_ago)
    failed_ms = microseconds(failed) // 1000
    with harness.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO {tables_of_runs(harness)} (workflow_uuid, status, name, created_at, updated_at,"
            f" completed_at, priority) VALUES ('{run_id}', 'ERROR', 'delivery', {failed_ms},"
            f" {failed_ms}, {failed_ms}, 0)"
        )
    return run_id


def change_run(harness: Harness, run_id: str, change: str) -> None:
    with harness.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE {tables_of_runs(harness)} SET {change} WHERE workflow_uuid = '{run_id}'"
        )


def lose(harness: Harness, name: str) -> str:
    with harness.live.database.transaction() as connection:
        return lose_mail(connection, name)


def keep_figures(harness: Harness, seconds: float) -> None:
    """Have the figures of the live page kept for so long."""
    harness.app.extensions[CACHE] = cache = CachedFigures()
    cache.seconds = seconds


def told(answer: TestResponse, name: str) -> tuple[str, int]:
    facts = answer.get_json()
    return facts["counts"][name], facts["newer"][name]
