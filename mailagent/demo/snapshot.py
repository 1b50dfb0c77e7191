"""What the demo's page shows of the app itself: refunds, payments, and the runs with their steps."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import Refund
from mailagent.engine import Doorbell, RecordedStep, Run
from mailagent.store import schema
from mailagent.store.refunds import refunds

_RUNS = 12  # the latest; each costs a query
_LONGEST_OUTPUT = 240


def take_snapshot() -> dict[str, Any]:
    """Return refunds, ledger and the latest runs as plain JSON data, newest first."""
    live = services.current()
    with live.database.snapshot() as connection:
        found = refunds.list_all(connection)
        ledger = [_payment(row) for row in connection.execute(sa.select(schema.ledger_entries))]
    return {
        "refunds": [_refund(refund) for refund in reversed(found)],
        "ledger": ledger[::-1],
        "runs": _runs(live.doorbell),
    }


def _refund(refund: Refund) -> dict[str, Any]:
    return {
        "refund_id": refund.refund_id,
        "order_id": refund.order_id,
        "amount": str(refund.amount),
        "status": refund.status.value,
        "decided_by": refund.decided_by,
        "requested_at": refund.requested_at.isoformat(),
    }


def _payment(row: Any) -> dict[str, Any]:
    return {
        "reference": row.reference,
        "order_id": row.order_id,
        "amount": str(Money(row.amount_minor, row.currency)),
        "recorded_at": row.recorded_at.isoformat(),
    }


def _runs(doorbell: Doorbell) -> list[dict[str, Any]]:
    latest = doorbell.list_runs(limit=_RUNS)
    return [_run(doorbell.find_run(run.run_id, with_steps=True) or run) for run in latest]


def _run(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "workflow": run.workflow,
        "status": run.status,
        "is_active": run.is_active,
        "created_at": run.created_at.isoformat(),
        "steps": [_step(step) for step in run.steps],
    }


def _step(step: RecordedStep) -> dict[str, Any]:
    output = json.dumps(step.output, ensure_ascii=False, default=str)
    if len(output) > _LONGEST_OUTPUT:
        output = f"{output[:_LONGEST_OUTPUT]} …"
    return {
        "number": step.number,
        "name": step.name,
        "error": step.error,
        "output": output,
        "at": step.started_at.isoformat() if step.started_at else None,
    }
