"""Who was asked to decide on a refund, what they have heard since, and which managers are away."""

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

# Statements that each refund needs are built once: building one costs about what sending it does.
# Whom the same moment asked in which order does not matter, but it must be one order.
_FIRST_FIRST = sa.select(_requests).order_by(_requests.c.asked_at, _requests.c.manager_email)
_OF_QUESTION = _FIRST_FIRST.where(
    _requests.c.approval_id == sa.bindparam("approval_id"),
    _requests.c.question == sa.bindparam("question"),
)
_OF_REFUND = _FIRST_FIRST.where(
    _requests.c.approval_id.in_(
        sa.select(_approvals.c.approval_id).where(
            _approvals.c.refund_id == sa.bindparam("refund_id")
        )
    )
)
_BY_TOKEN = _FIRST_FIRST.where(_requests.c.reply_token == sa.bindparam("reply_token"))
_NOTES_OF = (
    sa.select(_notes.c.manager_email, _notes.c.text, _notes.c.written_at)
    .where(
        _notes.c.approval_id == sa.bindparam("approval_id"),
        _notes.c.text != "",  # erased ones say nothing
    )
    .order_by(_notes.c.written_at, _notes.c.mail_id)
)


@dataclass(frozen=True, slots=True)
class Note:
    """What a manager wrote back without deciding."""

    manager_email: str
    text: str
    written_at: datetime


def record(
    connection: sa.Connection, approval_id: str, question: Question, manager: str, now: datetime
) -> ApprovalRequest:
    """Record that a manager is asked; a second time it is the same ask, with the same reply token."""
    values = {
        "approval_id": approval_id,
        "question": question.value,
        "manager_email": manager,
        "reply_token": new_token(),
        "asked_at": now,
    }
    if insert_once(connection, _requests, values, "approval_id", "question", "manager_email"):
        return ApprovalRequest(approval_id, question, manager, str(values["reply_token"]), now)
    (ask,) = (
        each for each in list_of(connection, approval_id, question) if each.manager_email == manager
    )
    return ask


def list_of(
    connection: sa.Connection, approval_id: str, question: Question
) -> tuple[ApprovalRequest, ...]:
    """Return who was asked one question, the first first."""
    return _list(connection, _OF_QUESTION, approval_id=approval_id, question=question.value)


def list_requests(connection: sa.Connection, refund_id: str) -> tuple[ApprovalRequest, ...]:
    """Return everybody who was asked about a refund, to approve or to countersign, the first first."""
    return _list(connection, _OF_REFUND, refund_id=refund_id)


def _list(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], **values: str
) -> tuple[ApprovalRequest, ...]:
    return tuple(_request(row) for row in connection.execute(query, values))


def find_by_token(connection: sa.Connection, reply_token: str) -> ApprovalRequest | None:
    """Return the ask that a reply address belongs to, or None."""
    found = _list(connection, _BY_TOKEN, reply_token=reply_token)
    return found[0] if found else None


def find_by_message_ids(
    connection: sa.Connection, message_ids: Sequence[str], manager: str | None = None
) -> ApprovalRequest | None:
    """Return the latest ask that one of these mails of ours put to a manager, to this one if given; or
    None."""
    if not message_ids:
        return None
    mails = schema.outbound_mails
    theirs = [_requests.c.manager_email == manager] if manager else []
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
        .where(mails.c.message_id.in_(message_ids), *theirs)
        .order_by(_requests.c.asked_at.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return _request(row) if row else None


def _request(row: Row) -> ApprovalRequest:
    values = dict(row._mapping)
    return ApprovalRequest(**values | {"question": Question(row.question)})


def record_reminder(
    connection: sa.Connection, ask: ApprovalRequest, now: datetime
) -> ApprovalRequest:
    """Record that a manager was reminded; return the ask as it is then."""
    return _update(connection, ask, reminders=ask.reminders + 1, reminded_at=now)


def record_skip(
    connection: sa.Connection, ask: ApprovalRequest, why: str, now: datetime
) -> ApprovalRequest:
    """Record why a manager is not waited for any more; return the ask as it is then."""
    return _update(connection, ask, skipped_at=now, skipped_why=why)


def _update(connection: sa.Connection, ask: ApprovalRequest, **values: Any) -> ApprovalRequest:
    connection.execute(
        _requests.update()
        .where(
            _requests.c.approval_id == ask.approval_id,
            _requests.c.question == ask.question.value,
            _requests.c.manager_email == ask.manager_email,
        )
        .values(**values)
    )
    return replace(ask, **values)


# --- what managers wrote back ---------------------------------------------------------------------


def record_note(
    connection: sa.Connection, mail_id: str, ask: ApprovalRequest, text: str, now: datetime
) -> None:
    """Record what a manager wrote in reply without deciding; it is for the shop's own people."""
    values = {
        "mail_id": mail_id,
        "approval_id": ask.approval_id,
        "manager_email": ask.manager_email,
        "text": text,
        "written_at": now,
    }
    insert_once(connection, _notes, values, "mail_id")


def list_notes(connection: sa.Connection, approval_id: str) -> tuple[Note, ...]:
    """Return the notes of managers on one approval, oldest first."""
    return tuple(Note(*row) for row in connection.execute(_NOTES_OF, {"approval_id": approval_id}))


# --- who is away ----------------------------------------------------------------------------------


def record_absence(
    connection: sa.Connection, manager: str, why: str, now: datetime, until: datetime
) -> None:
    """Record that a manager is away until a time; what was known before gives way."""
    end_absence(connection, manager)
    values = {"manager_email": manager, "why": why, "since": now, "until": until}
    insert_once(connection, _absences, values, "manager_email")


def end_absence(connection: sa.Connection, manager: str) -> None:
    """Record that a manager is back: they decided, or wrote."""
    connection.execute(_absences.delete().where(_absences.c.manager_email == manager))


def list_away(connection: sa.Connection, now: datetime) -> frozenset[str]:
    """Return which managers are away."""
    query = sa.select(_absences.c.manager_email).where(_absences.c.until > now)
    return frozenset(connection.scalars(query))
