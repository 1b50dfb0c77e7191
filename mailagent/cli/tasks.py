"""`flask tasks list`: what customers asked for beside refunds and what still waits."""

from __future__ import annotations

from typing import Any

from mailagent import services
from mailagent.cli.printing import AS_JSON, Commands, columns, print_records
from mailagent.domain.refunds.policy import needs_two
from mailagent.domain.remedies.remedy import Remedy, TaskStop
from mailagent.store.database import Row
from mailagent.store.refunds import remedies
from mailagent.store.refunds.stops import find_task_stops

tasks = Commands("tasks", help="What customers want that people of the shop do.")


@tasks.command("list")
@AS_JSON
def list_tasks(as_json: bool) -> None:
    """List what waits, oldest first."""
    with services.current().database.snapshot() as connection:
        waiting = remedies.list_open(connection)
        stopped = find_task_stops(connection, waiting)
        managers = services.current().shop.manager_emails
        approvals = remedies.find_approvals(connection, waiting, managers)
    records = [
        _record(each, stopped.get(each.remedy_id), approvals.get(each.remedy_id))
        for each in waiting
    ]
    shown = "remedy_id kind status order_id due_at stop approved_by"
    print_records(records, shown, "Nothing waits.", as_json=as_json)


def _record(each: Remedy, stop: TaskStop | None, first: Row | None) -> dict[str, Any]:
    return {
        **columns(each, "remedy_id kind status order_id conversation_id refund_id"),
        "items": [{"item_id": item.item_id, "quantity": item.quantity} for item in each.items],
        **columns(each, "wish needs_manager requested_at due_at"),
        "stop": stop,
        "needs_two_managers": needs_two(each.policy_reasons),
        "approved_by": first.actor if first else None,
    }
