"""Requests to managers to decide on a refund: reminders, notes, and which managers are absent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.refunds.escalation import ApprovalRequest, Question
from mailagent.store import schema
from mailagent.store.database import Row, insert_once
from mailagent.store.ids import new_token

_requests, _approvals = schema.approval_requests, schema.approvals
_notes, _absences = schema.approval_notes, schema.manager_absences


@dataclass(frozen=True, slots=True)
class Note:
    """What a manager wrote back without deciding."""

    manager_email: str
    text: str
    written_at: datetime


def record(
    connection: sa.Connection, approval_id: str, question: Question, manager: str, now: datetime
) -> ApprovalRequest:
    """Record that a manager is asked; return the stored request if there is one."""
    request = ApprovalRequest(approval_id, question, manager, new_token(), now)
    values = {
        "approval_id": approval_id,
        "question": question.value,
        "manager_email": manager,
        "reply_token": request.reply_token,
        "asked_at": now,
    }
    if insert_once(connection, _requests, values, "approval_id", "question", "manager_email"):
        return request
    (stored,) = _list(connection, *_is(request))
    return stored


def list_of(
    connection: sa.Connection, approval_id: str, question: Question
) -> tuple[ApprovalRequest, ...]:
    """Return the requests for one decision, oldest first."""
    return _list(
        connection, _requests.c.approval_id == approval_id, _requests.c.question == question.value
    )


def list_requests(connection: sa.Connection, refund_id: str) -> tuple[ApprovalRequest, ...]:
    """Return all requests about a refund, to approve or to countersign, oldest first."""
    approval = sa.select(_approvals.c.approval_id).where(_approvals.c.refund_id == refund_id)
    return _list(connection, _requests.c.approval_id.in_(approval))


def find_by_token(connection: sa.Connection, reply_token: str) -> ApprovalRequest | None:
    """Return the request that a reply address belongs to."""
    found = _list(connection, _requests.c.reply_token == reply_token)
    return found[0] if found else None


def find_by_message_ids(
    connection: sa.Connection, message_ids: Sequence[str], manager: str | None = None
) -> ApprovalRequest | None:
    """Return the latest request that one of these mails of ours was about, sent to its manager."""
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


def _list(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> tuple[ApprovalRequest, ...]:
    # The address decides the order of requests of the same moment.
    query = sa.select(_requests).where(*where)
    rows = connection.execute(query.order_by(_requests.c.asked_at, _requests.c.manager_email))
    return tuple(_request(row) for row in rows)


def _request(row: Row) -> ApprovalRequest:
    return ApprovalRequest(**{**row._mapping, "question": Question(row.question)})


def record_reminder(
    connection: sa.Connection, request: ApprovalRequest, now: datetime
) -> ApprovalRequest:
    """Record that a manager was reminded; return the changed request."""
    return _update(connection, request, reminders=request.reminders + 1, reminded_at=now)


def record_skip(
    connection: sa.Connection, request: ApprovalRequest, why: str, now: datetime
) -> ApprovalRequest:
    """Record why we no longer wait for a manager; return the changed request."""
    return _update(connection, request, skipped_at=now, skipped_why=why)


def _update(connection: sa.Connection, request: ApprovalRequest, **values: Any) -> ApprovalRequest:
    connection.execute(_requests.update().where(*_is(request)).values(**values))
    return replace(request, **values)


def _is(request: ApprovalRequest) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _requests.c.approval_id == request.approval_id,
        _requests.c.question == request.question.value,
        _requests.c.manager_email == request.manager_email,
    )


# --- notes and absences ---------------------------------------------------------------------------


def record_note(
    connection: sa.Connection, mail_id: str, request: ApprovalRequest, text: str, now: datetime
) -> None:
    """Record what a manager replied without deciding. The customer never gets it."""
    values = {
        "mail_id": mail_id,
        "approval_id": request.approval_id,
        "manager_email": request.manager_email,
        "text": text,
        "written_at": now,
    }
    insert_once(connection, _notes, values, "mail_id")


def list_notes(connection: sa.Connection, approval_id: str) -> tuple[Note, ...]:
    """Return the managers' notes on an approval, oldest first, without erased ones."""
    query = (
        sa.select(_notes.c.manager_email, _notes.c.text, _notes.c.written_at)
        .where(_notes.c.approval_id == approval_id, _notes.c.text != "")
        .order_by(_notes.c.written_at, _notes.c.mail_id)
    )
    return tuple(Note(*row) for row in connection.execute(query))


def record_absence(
    connection: sa.Connection, manager: str, why: str, now: datetime, until: datetime
) -> None:
    """Record that a manager is absent until a time, in place of what was recorded before."""
    end_absence(connection, manager)
    values = {"manager_email": manager, "why": why, "since": now, "until": until}
    insert_once(connection, _absences, values, "manager_email")


def end_absence(connection: sa.Connection, manager: str) -> None:
    """Record that a manager is back: they decided, or wrote."""
    connection.execute(_absences.delete().where(_absences.c.manager_email == manager))


def list_away(connection: sa.Connection, now: datetime) -> frozenset[str]:
    """Return the absent managers."""
    query = sa.select(_absences.c.manager_email).where(_absences.c.until > now)
    return frozenset(connection.scalars(query))
