"""When a shop is at rest: no run is at work but those that wait for a person, and no mail is on its way."""

from __future__ import annotations

import json
import time
from typing import Any

from mailagent.workflows.steps.maintenance.sweep import enqueue_mail
from mailagent.workflows.steps.maintenance.unfinished import enqueue_deliveries, enqueue_refunds
from tests.harness import Harness
from tests.workflows.trouble import is_sqlite

PATIENCE_SECONDS = 120.0
# As if a minute had passed: the sweep wakes what has missed its wake-up, such as a reply whose run was
# cancelled right after it had written it.
SWEEP_EVERY_SECONDS = 1.5

_AT_REST = {
    "look_at_decision",
    "pay_refund",
    "DBOS.sleep",
}  # what a run records last before it waits for a wake-up


def wake_again() -> None:
    """Wake, as the sweep of each minute does, for what no run looks after."""
    enqueue_mail()
    enqueue_refunds()
    enqueue_deliveries()


def settle(harness: Harness) -> dict[str, str]:
    """Wait until the shop is at rest; return the runs that are still at work when patience is out, each
    with what it is about."""
    began = swept = time.monotonic()
    while True:
        busy = list_busy(harness)
        if not busy and _no_mail_on_its_way(harness) and _no_mail_is_put_off(harness):
            return {}
        now = time.monotonic()
        if now - began > PATIENCE_SECONDS:
            return busy or {"": "a mail is on its way, or put off"}
        if now - swept > SWEEP_EVERY_SECONDS:
            wake_again()
            swept = now
        time.sleep(0.05)


def _no_mail_on_its_way(harness: Harness) -> bool:
    return not harness.rows("SELECT 1 FROM outbound_mails WHERE status IN ('queued', 'sending')")


def _no_mail_is_put_off(harness: Harness) -> bool:
    """Whether no mail waits for the model, which is well again, until the sweep wakes for it."""
    waiting = "status = 'unanswered' AND draft_id IS NULL AND put_off > 0"
    return not harness.rows(f"SELECT 1 FROM inbound_mails WHERE {waiting}")


def list_busy(harness: Harness) -> dict[str, str]:
    """Return the runs that are queued or at work, but for refunds that wait for a person; each with the
    conversation that it belongs to."""
    dbos = "" if is_sqlite(harness) else "dbos."
    runs = harness.rows(
        f"SELECT workflow_uuid, name, status, attributes FROM {dbos}workflow_status"
        " WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND name IN"
        " ('conversation', 'refund', 'delivery')"
    )
    if not runs:
        return {}
    waiting = {
        row.refund_id
        for row in harness.rows(
            "SELECT refund_id FROM refunds WHERE status = 'awaiting_approval'"
            " UNION ALL SELECT refund_id FROM remedies WHERE status IN ('task', 'awaiting_goods')"
            " UNION SELECT refund_id FROM ledger_settlements WHERE state = 'open'"
        )
    }
    unheard = {
        row.destination_uuid
        for row in harness.rows(
            f"SELECT destination_uuid FROM {dbos}notifications WHERE NOT consumed"
        )
    }
    last = _last_steps(harness, dbos)
    busy = {}
    for run in runs:
        about = _read(run.attributes)
        rests = (
            run.name == "refund"
            and run.status == "PENDING"
            and about.get("subject") in waiting
            and run.workflow_uuid not in unheard
            and last.get(run.workflow_uuid) in _AT_REST
        )
        if not rests:
            busy[run.workflow_uuid] = about.get("conversation") or about.get("subject", "")
    return busy


def _last_steps(harness: Harness, dbos: str) -> dict[str, str]:
    rows = harness.rows(
        f"SELECT o.workflow_uuid, o.function_id, o.function_name FROM {dbos}operation_outputs o"
        f" JOIN {dbos}workflow_status s USING (workflow_uuid) WHERE s.status = 'PENDING'"
        " ORDER BY o.function_id"
    )
    return {row.workflow_uuid: row.function_name for row in rows}


def _read(attributes: Any) -> dict[str, str]:
    if isinstance(attributes, str):
        attributes = json.loads(attributes)
    return dict(attributes or {})
