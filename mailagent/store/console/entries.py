"""Entries of the console's lists, made of rows of many kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.store.pagination import Cursor, moment_of

_approvals, _requests = schema.approvals, schema.approval_requests


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a list. `kind` says whose id `row_id` is: refund, draft, conversation, mail, outbound,
    or run; `state` and `what` are codes or strangers' words, not yet made for reading."""

    kind: str
    row_id: str
    at: datetime
    who: str
    what: str
    state: str = ""
    amount: Money | None = None
    order_id: str | None = None
    conversation_id: str | None = None
    refund_id: str | None = None
    owner: str | None = None
    expires_at: datetime | None = None
    dismissed_by: str | None = None
    run_id: str | None = None  # the run that a mail without an answer was enqueued for

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at, self.row_id)


def refund_entry(row: Row, **more: Any) -> Entry:
    """Return the entry of a refund, from its row and its customer's address."""
    return Entry(
        kind="refund",
        row_id=row.refund_id,
        at=row.requested_at,
        who=row.customer_email or "",
        what=row.reason,
        amount=Money(row.amount_minor, row.currency),
        order_id=row.order_id,
        conversation_id=row.conversation_id,
        refund_id=row.refund_id,
        **({"state": row.status} | more),
    )


def approval_entry(row: Row) -> Entry:
    """Return the entry of a refund that waits for a manager."""
    return refund_entry(row, expires_at=row.expires_at, owner=row.first)


def failed_refund_entry(row: Row) -> Entry:
    """Return the entry of a refund that failed."""
    return refund_entry(row, dismissed_by=row.dismissed_by)


def run_entry(row: Row) -> Entry:
    """Return the entry of a run that failed."""
    at = moment_of(row.at)
    assert at is not None  # noqa: S101 - the expression has no NULL in it
    return Entry(
        kind="run",
        row_id=row.run_id,
        at=at,
        who="",
        what=row.workflow,
        state=row.status,
        dismissed_by=row.dismissed_by,
    )


def draft_entry(row: Row) -> Entry:
    """Return the entry of a draft."""
    return Entry(
        kind="draft",
        row_id=row.draft_id,
        at=row.created_at,
        who=row.customer_email or "",
        what=row.subject or "",
        state=row.state,
        conversation_id=row.conversation_id,
    )


def people_entry(row: Row) -> Entry:
    """Return the entry of a conversation with the team."""
    return Entry(
        kind="conversation",
        row_id=row.conversation_id,
        at=row.handed_over_at,
        who=row.customer_email,
        what=row.subject,
        state="answered" if row.answered else row.handed_over_reason or "",
        conversation_id=row.conversation_id,
        owner=row.owner_email,
    )


def inbound_entry(row: Row) -> Entry:
    """Return the entry of a mail that came in."""
    return Entry(
        kind="mail",
        row_id=row.mail_id,
        at=row.received_at,
        who=row.from_address,
        what=row.subject,
        state=row.no_answer_reason or "",
        conversation_id=row.conversation_id,
    )


def unanswered_entry(row: Row) -> Entry:
    """Return the entry of a mail that waits for the agent."""
    return replace(inbound_entry(row), run_id=row.run_id)


def undelivered_entry(row: Row) -> Entry:
    """Return the entry of a mail of ours that was lost."""
    # Never its subject or text: those of some mails are for one reader only.
    return Entry(
        kind="outbound",
        row_id=row.outbound_id,
        at=row.created_at,
        who=row.to_address,
        what=row.purpose,
        state=row.status,
        conversation_id=row.conversation_id,
        refund_id=row.refund_id,
        dismissed_by=row.dismissed_by,
    )


def list_asked(connection: sa.Connection, refund_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return who was asked to decide on each refund and was not given up on since, in that order."""
    if not refund_ids:
        return {}
    query = (
        sa.select(_approvals.c.refund_id, _requests.c.manager_email)
        .join(_requests, _requests.c.approval_id == _approvals.c.approval_id)
        .where(_approvals.c.refund_id.in_(refund_ids), _requests.c.skipped_at.is_(None))
        .order_by(_requests.c.asked_at, _requests.c.manager_email)
    )
    asked: dict[str, list[str]] = {}
    for row in connection.execute(query):
        people = asked.setdefault(row.refund_id, [])
        if row.manager_email not in people:
            people.append(row.manager_email)
    return asked
