"""Approvals: the question put to a manager, its date, and the one decision that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import insert_once
from mailagent.store.ids import new_id

_approvals, _decisions = schema.approvals, schema.decisions


@dataclass(frozen=True, slots=True)
class Approval:
    approval_id: str
    refund_id: str
    requested_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """What a named person decided. `amount_minor` is set when less was approved."""

    approval_id: str
    decision: str
    decided_by: str
    decided_at: datetime
    amount_minor: int | None = None
    note: str | None = None

    @property
    def approves(self) -> bool:
        return self.decision == "approve"


def request(
    connection: sa.Connection, refund_id: str, now: datetime, expires_at: datetime
) -> Approval:
    """Record that a refund needs a decision by `expires_at`; a second time it is the same approval."""
    insert_once(
        connection,
        _approvals,
        {
            "approval_id": new_id("approval"),
            "refund_id": refund_id,
            "requested_at": now,
            "expires_at": expires_at,
        },
        "refund_id",
    )
    approval = find_of_refund(connection, refund_id)
    if approval is None:
        raise LookupError(f"the approval of refund {refund_id} was not recorded")
    return approval


def find(connection: sa.Connection, approval_id: str) -> Approval | None:
    return _find(connection, _approvals.c.approval_id == approval_id)


def find_of_refund(connection: sa.Connection, refund_id: str) -> Approval | None:
    return _find(connection, _approvals.c.refund_id == refund_id)


def _find(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Approval | None:
    row = connection.execute(sa.select(_approvals).where(where)).one_or_none()
    return Approval(**row._mapping) if row else None


def record_decision(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the decision unless one stands already; return whether this one is it."""
    values: dict[str, Any] = {
        name: getattr(decision, name)
        for name in ("approval_id", "decision", "decided_by", "decided_at", "amount_minor", "note")
    }
    return insert_once(connection, _decisions, values, "approval_id")


def find_decision(connection: sa.Connection, approval_id: str) -> RecordedDecision | None:
    row = connection.execute(
        sa.select(_decisions).where(_decisions.c.approval_id == approval_id)
    ).one_or_none()
    return RecordedDecision(**row._mapping) if row else None
