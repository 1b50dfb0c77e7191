"""Approvals: which managers are asked to decide on a refund, by when, and what they decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.refunds.escalation import ApprovalRequest, Question
from mailagent.store import schema
from mailagent.store.database import Row, columns_of, insert_once, required, update_rows
from mailagent.store.ids import new_id, new_token

_approvals, _decisions = schema.approvals, schema.decisions
_countersignatures, _requests = schema.countersignatures, schema.approval_requests
_notes, _absences = schema.approval_notes, schema.manager_absences


@dataclass(frozen=True, slots=True)
class Approval:
    approval_id: str
    refund_id: str
    requested_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A row of `decisions` or `countersignatures`: what a named person decided.

    `amount_minor` is set if the manager approved less, and `quantities`, by line number, if the decision is for
    fewer units.
    `note_shared`: the customer gets the note, too. `mail_id`: the manager's reply, if they decided by mail.
    `despite_cancel` and `approved_for`: what they knew of the order (see `Refund`). Until `undo_until` the
    decision has no effect, and its author may take it back. `offer_percent`: a rejection offers this part of
    the price instead.
    """

    approval_id: str
    decision: str
    decided_by: str
    decided_at: datetime
    amount_minor: int | None = None
    note: str | None = None
    note_shared: bool = False
    mail_id: str | None = None
    quantities: Mapping[str, int] = field(default_factory=dict)
    despite_cancel: bool = False
    approved_for: str | None = None
    undo_until: datetime | None = None
    offer_percent: int | None = None

    @property
    def approves(self) -> bool:
        return self.decision == "approve"

    @property
    def units(self) -> dict[int, int]:
        """The chosen units, by line number, of lines with fewer than were asked for."""
        return {int(line_no): units for line_no, units in self.quantities.items()}

    def can_be_undone(self, now: datetime) -> bool:
        return self.undo_until is not None and now < self.undo_until


@dataclass(frozen=True, slots=True)
class Standing:
    """An approval with the first manager's decision and the second manager's (countersignature); None while one
    is missing."""

    approval: Approval
    first: RecordedDecision | None
    second: RecordedDecision | None

    @property
    def last(self) -> RecordedDecision | None:
        return self.second or self.first

    def final(self, four_eyes: bool) -> RecordedDecision | None:
        """Return the decision that approves or rejects the refund; None if it is missing. `four_eyes`: an
        approval needs the second manager's."""
        half = four_eyes and self.first is not None and self.first.approves
        return self.second if half else self.first

    def undo_until(self, now: datetime) -> datetime | None:
        """Return until when the last decision can be taken back; None if it cannot any more."""
        last = self.last
        return last.undo_until if last and last.can_be_undone(now) else None


@dataclass(frozen=True, slots=True)
class Note:
    """What a manager wrote back without deciding."""

    manager_email: str
    text: str
    written_at: datetime


def request(
    connection: sa.Connection, refund_id: str, now: datetime, expires_at: datetime
) -> Approval:
    """Record that a refund needs a decision by `expires_at`; return the approval. If the refund has one
    already, return that."""
    approval = Approval(new_id("approval"), refund_id, now, expires_at)
    if insert_once(connection, _approvals, asdict(approval), "refund_id"):
        return approval
    stored = sa.select(_approvals).where(_approvals.c.refund_id == refund_id)
    return Approval(**connection.execute(stored).one()._mapping)


def find_of_refund(connection: sa.Connection, refund_id: str) -> Approval | None:
    standing = find_standing_of_refund(connection, refund_id)
    return standing.approval if standing else None


def find_standing(connection: sa.Connection, approval_id: str) -> Standing | None:
    """Return an approval with its decisions, or None if there is no such approval."""
    return _find_standing(connection, _approvals.c.approval_id == approval_id)


def load_standing_of_refund(connection: sa.Connection, refund_id: str) -> Standing:
    """Return the approval of a refund that waits for a manager. Raises LookupError."""
    return required(find_standing_of_refund(connection, refund_id), f"approval of {refund_id}")


def find_standing_of_refund(connection: sa.Connection, refund_id: str) -> Standing | None:
    """Return the approval of a refund with its decisions, or None if the refund needs none."""
    return _find_standing(connection, _approvals.c.refund_id == refund_id)


def list_standings(connection: sa.Connection, refund_ids: Sequence[str]) -> dict[str, Standing]:
    """Return the approvals of these refunds with their decisions, by refund id."""
    found = _list_standings(connection, _approvals.c.refund_id.in_(refund_ids))
    return {standing.approval.refund_id: standing for standing in found}


def _find_standing(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Standing | None:
    return next(_list_standings(connection, where), None)


def _list_standings(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Iterator[Standing]:
    query = (
        sa.select(_approvals, _decisions, _countersignatures)
        .outerjoin(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
        .outerjoin(_countersignatures, _countersignatures.c.approval_id == _approvals.c.approval_id)
        .where(where)
    )
    for row in connection.execute(query).all():
        first, second = _values(row, _decisions), _values(row, _countersignatures)
        yield Standing(
            Approval(**_values(row, _approvals)),
            RecordedDecision(**first) if first["approval_id"] else None,
            RecordedDecision(**second) if second["approval_id"] else None,
        )


def _values(row: Row, table: sa.Table) -> dict[str, Any]:
    return {column.name: row._mapping[column] for column in table.c}


def extend(connection: sa.Connection, approval_id: str, expires_at: datetime) -> None:
    """Move the date of an approval to `expires_at`, if that is later."""
    here, is_earlier = _approvals.c.approval_id == approval_id, _approvals.c.expires_at < expires_at
    update_rows(connection, _approvals, here, is_earlier, expires_at=expires_at)


def record_decision(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the decision unless there is one; return whether it was recorded. A manager who decides is
    no longer absent."""
    end_absence(connection, decision.decided_by)
    return insert_once(connection, _decisions, asdict(decision), "approval_id")


def record_countersignature(connection: sa.Connection, decision: RecordedDecision) -> bool:
    """Record the second decision unless there is one; return whether it was recorded.

    Raises IntegrityError, by a trigger, for the manager who made the first decision, and if the first was
    no approval.
    """
    return insert_once(connection, _countersignatures, asdict(decision), "approval_id")


def take_back(connection: sa.Connection, standing: Standing) -> None:
    """Delete the last decision. First record in the audit log that its author took it back: without that entry,
    after `undo_until`, or if the decision has had an effect, a trigger raises DBAPIError."""
    table = _countersignatures if standing.second else _decisions
    connection.execute(table.delete().where(table.c.approval_id == standing.approval.approval_id))


def list_decisions(connection: sa.Connection, refund_id: str) -> tuple[RecordedDecision, ...]:
    standing = find_standing_of_refund(connection, refund_id)
    both = (standing.first, standing.second) if standing else ()
    return tuple(decision for decision in both if decision)


def list_deciders(connection: sa.Connection) -> dict[str, tuple[str, str | None]]:
    """Return who decided on each refund, by refund id: the first manager, and the second or None."""
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


# --- requests to managers -------------------------------------------------------------------------


def record_request(
    connection: sa.Connection, approval_id: str, question: Question, manager: str, now: datetime
) -> ApprovalRequest:
    """Record that a manager is asked; return the stored request if there is one."""
    request = ApprovalRequest(approval_id, question, manager, new_token(), now)
    values = columns_of(_requests, request)
    if insert_once(connection, _requests, values, "approval_id", "question", "manager_email"):
        return request
    (stored,) = _list_requests(connection, *_where_request(request))
    return stored


def list_requests_for(
    connection: sa.Connection, approval_id: str, question: Question
) -> tuple[ApprovalRequest, ...]:
    return _list_requests(
        connection, _requests.c.approval_id == approval_id, _requests.c.question == question.value
    )


def list_requests(connection: sa.Connection, refund_id: str) -> tuple[ApprovalRequest, ...]:
    """Return all requests to managers about a refund, for both questions, oldest first."""
    approval = sa.select(_approvals.c.approval_id).where(_approvals.c.refund_id == refund_id)
    return _list_requests(connection, _requests.c.approval_id.in_(approval))


def find_request_by_token(connection: sa.Connection, reply_token: str) -> ApprovalRequest | None:
    found = _list_requests(connection, _requests.c.reply_token == reply_token)
    return found[0] if found else None


def find_request_by_message_ids(
    connection: sa.Connection, message_ids: Sequence[str], manager: str | None = None
) -> ApprovalRequest | None:
    """Return the latest request that we sent by a mail with one of these Message-IDs. `manager`: only requests
    to this address."""
    if not message_ids:
        return None
    mails = schema.outbound_mails
    query = (
        sa.select(_requests)
        .join(_approvals, _approvals.c.approval_id == _requests.c.approval_id)
        .join(
            mails,
            sa.and_(
                mails.c.refund_id == _approvals.c.refund_id,
                mails.c.to_address == _requests.c.manager_email,
            ),
        )
        .where(mails.c.message_id.in_(message_ids))
        .order_by(_requests.c.asked_at.desc())
        .limit(1)
    )
    if manager:
        query = query.where(_requests.c.manager_email == manager)
    row = connection.execute(query).one_or_none()
    return _request(row) if row else None


def _list_requests(
    connection: sa.Connection, *where: sa.ColumnElement[bool]
) -> tuple[ApprovalRequest, ...]:
    query = sa.select(_requests).where(*where)
    rows = connection.execute(query.order_by(_requests.c.asked_at, _requests.c.manager_email))
    return tuple(_request(row) for row in rows)


def _request(row: Row) -> ApprovalRequest:
    return ApprovalRequest(**{**row._mapping, "question": Question(row.question)})


def record_reminder(
    connection: sa.Connection, request: ApprovalRequest, now: datetime
) -> ApprovalRequest:
    return _update(connection, request, reminders=request.reminders + 1, reminded_at=now)


def record_skip(
    connection: sa.Connection, request: ApprovalRequest, why: str, now: datetime
) -> ApprovalRequest:
    """Record why we no longer wait for a manager; return the changed request."""
    return _update(connection, request, skipped_at=now, skipped_why=why)


def _update(connection: sa.Connection, request: ApprovalRequest, **values: Any) -> ApprovalRequest:
    update_rows(connection, _requests, *_where_request(request), **values)
    return replace(request, **values)


def _where_request(request: ApprovalRequest) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _requests.c.approval_id == request.approval_id,
        _requests.c.question == request.question.value,
        _requests.c.manager_email == request.manager_email,
    )


# --- notes and absences ---------------------------------------------------------------------------


def record_note(
    connection: sa.Connection, mail_id: str, request: ApprovalRequest, text: str, now: datetime
) -> None:
    """Record a manager's reply that decides nothing. The customer never gets it."""
    values = {
        "mail_id": mail_id,
        "approval_id": request.approval_id,
        "manager_email": request.manager_email,
        "text": text,
        "written_at": now,
    }
    insert_once(connection, _notes, values, "mail_id")


def list_notes(connection: sa.Connection, approval_id: str) -> tuple[Note, ...]:
    """Return the managers' notes on an approval, oldest first, except erased ones."""
    query = (
        sa.select(_notes.c.manager_email, _notes.c.text, _notes.c.written_at)
        .where(_notes.c.approval_id == approval_id, _notes.c.text != "")
        .order_by(_notes.c.written_at, _notes.c.mail_id)
    )
    return tuple(Note(*row) for row in connection.execute(query))


def record_absence(
    connection: sa.Connection, manager: str, why: str, now: datetime, until: datetime
) -> None:
    """Record that a manager is absent until a time; this replaces an earlier record."""
    end_absence(connection, manager)
    values = {"manager_email": manager, "why": why, "since": now, "until": until}
    insert_once(connection, _absences, values, "manager_email")


def end_absence(connection: sa.Connection, manager: str) -> None:
    """Record that a manager is back, because they have decided or written."""
    connection.execute(_absences.delete().where(_absences.c.manager_email == manager))


def list_away(connection: sa.Connection, now: datetime) -> frozenset[str]:
    query = sa.select(_absences.c.manager_email).where(_absences.c.until > now)
    return frozenset(connection.scalars(query))
