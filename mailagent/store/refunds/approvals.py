"""Approvals: when a refund must be decided, and the decision of a manager; with four eyes also the second."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Row, insert_once
from mailagent.store.ids import new_id
from mailagent.store.refunds import approval_requests

_approvals, _decisions = schema.approvals, schema.decisions
_countersignatures = schema.countersignatures


@dataclass(frozen=True, slots=True)
class Approval:
    """A row of `approvals`."""

    approval_id: str
    refund_id: str
    requested_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A row of `decisions` or `countersignatures`: what a named person decided.

    `amount_minor` is set if the manager approved less. `note_shared`: the customer gets the note too.
    `mail_id`: the manager's reply, if the manager decided by mail.
    """

    approval_id: str
    decision: str
    decided_by: str
    decided_at: datetime
    amount_minor: int | None = None
    note: str | None = None
    note_shared: bool = True
    mail_id: str | None = None

    @property
    def approves(self) -> bool:
        return self.decision == "approve"


@dataclass(frozen=True, slots=True)
class Standing:
    """An approval with the first manager's decision and the countersignature, as far as there are any."""

    approval: Approval
    first: RecordedDecision | None
    second: RecordedDecision | None


def request(
    connection: sa.Connection, refund_id: str, now: datetime, expires_at: datetime
) -> Approval:
    """Record that a refund needs a decision by `expires_at`; return the stored approval if it has one."""
    approval = Approval(new_id("approval"), refund_id, now, expires_at)
    if insert_once(connection, _approvals, asdict(approval), "refund_id"):
        return approval
    stored = find_of_refund(connection, refund_id)
    if stored is None:
        raise LookupError(f"the approval of refund {refund_id} was not recorded")
    return stored


def find_of_refund(connection: sa.Connection, refund_id: str) -> Approval | None:
    query = sa.select(_approvals).where(_approvals.c.refund_id == refund_id)
    row = connection.execute(query).one_or_none()
    return Approval(**row._mapping) if row else None


def find_standing(connection: sa.Connection, approval_id: str) -> Standing | None:
    """Return an approval with its decisions, or None if there is no such approval."""
    return _find_standing(connection, _approvals.c.approval_id == approval_id)


def find_standing_of_refund(connection: sa.Connection, refund_id: str) -> Standing | None:
    """Return the approval of a refund with its decisions, or None if the refund needs none."""
    return _find_standing(connection, _approvals.c.refund_id == refund_id)


def _find_standing(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Standing | None:
    query = (
        sa.select(_approvals, _decisions, _countersignatures)
        .outerjoin(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
        .outerjoin(_countersignatures, _countersignatures.c.approval_id == _approvals.c.approval_id)
        .where(where)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    first, second = _values(row, _decisions), _values(row, _countersignatures)
    return Standing(
        Approval(**_values(row, _approvals)),
        RecordedDecision(**first) if first["approval_id"] else None,
        RecordedDecision(**second) if second["approval_id"] else None,
    )


def _values(row: Row, table: sa.Table) -> dict[str, Any]:
    return {column.name: row._mapping[column] for column in table.c}


def extend(connection: sa.Connection, approval_id: str, expires_at: datetime) -> None:
    """Move the date of an approval to `expires_at`; an earlier date changes nothing."""
    connection.execute(
        _approvals.update()
        .where(_approvals.c.approval_id == approval_id, _approvals.c.expires_at < expires_at)
        .values(expires_at=expires_at)
    )


def record_decision(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the decision unless there is one; return whether it was recorded. A manager who decides is
    no longer absent."""
    approval_requests.end_absence(connection, decision.decided_by)
    return insert_once(connection, _decisions, asdict(decision), "approval_id")


def record_countersignature(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the second decision unless there is one; return whether it was recorded.

    Raises IntegrityError, by a trigger, for the manager who made the first decision, and if the first was
    no approval.
    """
    return insert_once(connection, _countersignatures, asdict(decision), "approval_id")


def list_decisions(connection: sa.Connection, refund_id: str) -> tuple[RecordedDecision, ...]:
    """Return the decisions on a refund, the first one first."""
    standing = find_standing_of_refund(connection, refund_id)
    both = (standing.first, standing.second) if standing else ()
    return tuple(decision for decision in both if decision)


def list_deciders(connection: sa.Connection) -> dict[str, tuple[str, str | None]]:
    """Return who decided on each refund: the first manager, and the second if there was one."""
    query = (
        sa.select(
            _approvals.c.refund_id,
            _decisions.c.decided_by.label("first"),
            _countersignatures.c.decided_by.label("second"),
        )
        .join(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
        .outerjoin(_countersignatures, _countersignatures.c.approval_id == _approvals.c.approval_id)
    )
    return {row.refund_id: (row.first, row.second) for row in connection.execute(query)}
