"""Approvals: the question put to a manager, its date, and the one decision that answers it; where two
pairs of eyes are needed, the second decision too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import insert_once
from mailagent.store.ids import new_id
from mailagent.store.refunds import approval_requests

_approvals, _decisions = schema.approvals, schema.decisions
_countersignatures = schema.countersignatures

_OF_REFUND = sa.select(_approvals).where(_approvals.c.refund_id == sa.bindparam("refund_id"))


@dataclass(frozen=True, slots=True)
class Approval:
    approval_id: str
    refund_id: str
    requested_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """What a named person decided. `amount_minor` is set when less was approved; `note_shared` says
    whether the note is for the customer, too; `mail_id` is the reply by which it was decided, if any."""

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
    """An approval with what was decided on it so far: by the first manager, and by whoever countersigned."""

    approval: Approval
    first: RecordedDecision | None
    second: RecordedDecision | None


_APPROVAL_FIELDS, _DECISION_FIELDS = (
    [field.name for field in fields(record)] for record in (Approval, RecordedDecision)
)
# Labels, because the two tables of decisions have the same columns.
_STANDING = (
    sa.select(
        *(_approvals.c[name] for name in _APPROVAL_FIELDS),
        *(_decisions.c[name].label(f"first_{name}") for name in _DECISION_FIELDS),
        *(_countersignatures.c[name].label(f"second_{name}") for name in _DECISION_FIELDS),
    )
    .outerjoin(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
    .outerjoin(_countersignatures, _countersignatures.c.approval_id == _approvals.c.approval_id)
)
_STANDING_BY_ID = _STANDING.where(_approvals.c.approval_id == sa.bindparam("approval_id"))
_STANDING_OF_REFUND = _STANDING.where(_approvals.c.refund_id == sa.bindparam("refund_id"))


def request(
    connection: sa.Connection, refund_id: str, now: datetime, expires_at: datetime
) -> Approval:
    """Record that a refund needs a decision by `expires_at`; a second time it is the same approval."""
    approval = Approval(new_id("approval"), refund_id, now, expires_at)
    if insert_once(connection, _approvals, asdict(approval), "refund_id"):
        return approval
    stored = find_of_refund(connection, refund_id)
    if stored is None:
        raise LookupError(f"the approval of refund {refund_id} was not recorded")
    return stored


def find_of_refund(connection: sa.Connection, refund_id: str) -> Approval | None:
    row = connection.execute(_OF_REFUND, {"refund_id": refund_id}).one_or_none()
    return Approval(**row._mapping) if row else None


def find_standing(connection: sa.Connection, approval_id: str) -> Standing | None:
    """Return an approval with what was decided on it, or None where there is none."""
    return _find_standing(connection, _STANDING_BY_ID, approval_id=approval_id)


def find_standing_of_refund(connection: sa.Connection, refund_id: str) -> Standing | None:
    """Return the approval of a refund with what was decided on it, or None where it needs none."""
    return _find_standing(connection, _STANDING_OF_REFUND, refund_id=refund_id)


def _find_standing(
    connection: sa.Connection, query: sa.Select[Any], **values: str
) -> Standing | None:
    row = connection.execute(query, values).one_or_none()
    if row is None:
        return None
    mine, each = len(_APPROVAL_FIELDS), len(_DECISION_FIELDS)
    return Standing(
        Approval(*row[:mine]), _decision(row[mine : mine + each]), _decision(row[mine + each :])
    )


def _decision(values: Sequence[Any]) -> RecordedDecision | None:
    # Left out by the outer join: not even the key is there.
    return RecordedDecision(*values) if values[0] is not None else None


def extend(connection: sa.Connection, approval_id: str, expires_at: datetime) -> None:
    """Record that an approval may be decided until `expires_at`; an earlier date changes nothing."""
    connection.execute(
        _approvals.update()
        .where(_approvals.c.approval_id == approval_id, _approvals.c.expires_at < expires_at)
        .values(expires_at=expires_at)
    )


def record_decision(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the decision unless one stands already; return whether this one is it. Whoever decides is not away
    any more."""
    approval_requests.end_absence(connection, decision.decided_by)
    return insert_once(connection, _decisions, asdict(decision), "approval_id")


def record_countersignature(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the second decision unless one stands already; return whether this one is it.

    Raises IntegrityError for whoever made the first one, and where that was no approval: the
    trigger's last word.
    """
    return insert_once(connection, _countersignatures, asdict(decision), "approval_id")


def list_decisions(connection: sa.Connection, refund_id: str) -> tuple[RecordedDecision, ...]:
    """Return what managers decided on a refund: nothing, one decision, or the first and the second."""
    standing = find_standing_of_refund(connection, refund_id)
    both = (standing.first, standing.second) if standing else ()
    return tuple(decision for decision in both if decision)


def list_deciders(connection: sa.Connection) -> dict[str, tuple[str, str | None]]:
    """Return who decided on each refund: the first person, and who countersigned, if anybody did."""
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
