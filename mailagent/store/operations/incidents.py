"""Incidents, as entries of the audit log: an incident is open if its last opening has no closing. And the rows
that show that a provider works again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus, HandOverReason
from mailagent.domain.mail.message import MailStatus
from mailagent.domain.operations.incident import IncidentKind, OpenIncident
from mailagent.domain.operations.retry import MAIL_IS_UNDER_WAY_FOR
from mailagent.store import audit, schema
from mailagent.store.database import count_rows, exists
from mailagent.store.mail.arrivals import UNCONFIRMED

_audit = schema.audit.c
_OPENED: Final = "incident opened"
_CLOSED: Final = "incident closed"


def list_open(connection: sa.Connection) -> tuple[OpenIncident, ...]:
    """Return the open incidents, oldest first. It is fast, because every page of the inbox calls it."""
    latest = (
        sa.select(sa.func.max(_audit.audit_id))
        .where(_audit.subject.in_(list(IncidentKind)), _audit.action.in_((_OPENED, _CLOSED)))
        .group_by(_audit.subject)
    )
    query = (
        sa.select(_audit.subject, _audit.at, _audit.details)
        .where(_audit.audit_id.in_(latest), _audit.action == _OPENED)
        .order_by(_audit.audit_id)
    )
    return tuple(
        OpenIncident(IncidentKind(row.subject), row.at, row.details.get("why", ""))
        for row in connection.execute(query)
    )


def find_open(connection: sa.Connection, incident: IncidentKind) -> OpenIncident | None:
    return next((each for each in list_open(connection) if each.incident is incident), None)


def list_closed_at(
    connection: sa.Connection, incident: IncidentKind, since: datetime
) -> Sequence[datetime]:
    """Return when an incident was closed, since a time, oldest first."""
    query = sa.select(_audit.at).where(
        _audit.subject == incident.value, _audit.action == _CLOSED, _audit.at >= since
    )
    return connection.scalars(query.order_by(_audit.at)).all()


def open_incident(
    connection: sa.Connection, now: datetime, incident: IncidentKind, why: str
) -> int | None:
    """Record that an incident has begun; return its number, or None if it is already open.

    `why` is a line without what a customer wrote. Of two processes at the same moment both may get the
    same number: a notice that is written under it is written once.
    """
    if find_open(connection, incident) is not None:
        return None
    number = _count(connection, incident, _CLOSED) + 1
    audit.record(connection, now, audit.CLOCK, _OPENED, incident.value, {"why": why})
    return number


def close_incident(connection: sa.Connection, now: datetime, incident: IncidentKind) -> bool:
    """Record that an incident is over; return False if it was not open."""
    if find_open(connection, incident) is None:
        return False
    audit.record(connection, now, audit.CLOCK, _CLOSED, incident.value)
    return True


def _count(connection: sa.Connection, incident: IncidentKind, action: str) -> int:
    return count_rows(connection, _audit.subject == incident.value, _audit.action == action)


# --- recovery probes ------------------------------------------------------------------------------


_calls, _mails = schema.model_calls.c, schema.outbound_mails.c
_inbound, _conversations = schema.inbound_mails.c, schema.conversations.c


def has_model_answered(connection: sa.Connection, since: datetime) -> bool:
    return exists(connection, _calls.at > since, _calls.outcome == "done")


def runs_refused_by_model(connection: sa.Connection, since: datetime) -> set[str]:
    """Return the runs in which the model's provider refused us since a time."""
    query = sa.select(_calls.run_id).where(_calls.at >= since, _calls.outcome == "operator")
    return {run_id for run_id in connection.scalars(query) if run_id}


def has_mail_gone_out(connection: sa.Connection, since: datetime) -> bool:
    return exists(
        connection, _mails.created_at > since - MAIL_IS_UNDER_WAY_FOR, _mails.sent_at > since
    )


def count_loops(connection: sa.Connection, since: datetime) -> int:
    """Return in how many conversations the loop guard has tripped since a time and was not reset."""
    return count_rows(
        connection,
        _conversations.status == ConversationStatus.HANDED_OVER.value,
        _conversations.handed_over_at > since,
        _conversations.handed_over_reason == HandOverReason.LOOP_DETECTED.value,
    )


def count_throttled(connection: sa.Connection) -> int:
    """Return how many mails are throttled because too much came. Mails of senders who have not confirmed their
    addresses do not count, because they delay no other mail."""
    is_throttled = _inbound.status == MailStatus.THROTTLED.value
    others = (HandOverReason.LOOP_DETECTED.value, UNCONFIRMED)
    return count_rows(connection, is_throttled, _inbound.no_answer_reason.not_in(others))
