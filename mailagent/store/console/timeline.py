"""A conversation or refund as one list of events in order of time, read in pages from the newest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.refunds.refund import Refund
from mailagent.store import schema
from mailagent.store.console import timeline_entries
from mailagent.store.console.timeline_entries import SOURCES, Entry, EntryKind
from mailagent.store.database import Row

PAGE_LENGTH = 100
# How many of one source may share the moment at which a page ends.
SAME_MOMENT_MAX = 50

_conversations, _inbound = schema.conversations, schema.inbound_mails


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a page ends and the next, older one begins."""

    at: datetime
    key: str


@dataclass(frozen=True, slots=True)
class Page:
    """Entries, the newest first; `older` is the mark of the next page, None on the last."""

    entries: tuple[Entry, ...]
    older: Mark | None


def read_page(
    connection: sa.Connection, conversation_id: str, before: Mark | None, length: int = PAGE_LENGTH
) -> Page:
    """Return the newest entries of a conversation that are older than a mark, or the newest of all."""
    # One more than a page shows that there is another; some, for what shares the moment of the mark.
    limit = length + 1 + (SAME_MOMENT_MAX if before else 0)
    at = before.at if before else None
    found = [
        entry for source in SOURCES for entry in source(connection, conversation_id, at, limit)
    ]
    if before:
        found = [entry for entry in found if (entry.at, entry.key) < (before.at, before.key)]
    found.sort(key=lambda entry: (entry.at, entry.key), reverse=True)
    page = found[:length]
    more = len(found) > length
    return Page(tuple(page), Mark(page[-1].at, page[-1].key) if more else None)


def find_head(connection: sa.Connection, conversation_id: str) -> Row | None:
    """Return the row of a conversation with what waits in it: `unanswered` and `throttled` mails, and
    `draft_id`, the draft that waits for somebody's click, if one does."""
    drafts = schema.drafts
    waiting = (
        sa.select(sa.func.max(drafts.c.draft_id))
        .where(drafts.c.conversation_id == conversation_id, drafts.c.state == "waiting")
        .scalar_subquery()
        .label("draft_id")
    )
    counts = [
        sa.select(sa.func.count())
        .where(_inbound.c.conversation_id == conversation_id, _inbound.c.status == status)
        .scalar_subquery()
        .label(status)
        for status in ("unanswered", "throttled")
    ]
    return connection.execute(
        sa.select(_conversations, waiting, *counts).where(
            _conversations.c.conversation_id == conversation_id
        )
    ).one_or_none()


def newest_mail_in(
    connection: sa.Connection, conversation_id: str, kinds: Sequence[str]
) -> str | None:
    """Return the newest mail of these kinds that came into a conversation: ids are in order of time."""
    query = sa.select(sa.func.max(_inbound.c.mail_id)).where(
        _inbound.c.conversation_id == conversation_id, _inbound.c.kind.in_(kinds)
    )
    found: str | None = connection.scalar(query)
    return found


def newest_mail_to(connection: sa.Connection, conversation_id: str, address: str) -> str | None:
    """Return the newest mail of ours to an address in a conversation."""
    mails = schema.outbound_mails.c
    query = sa.select(sa.func.max(mails.outbound_id)).where(
        mails.conversation_id == conversation_id, mails.to_address == address
    )
    found: str | None = connection.scalar(query)
    return found


def list_events(connection: sa.Connection, outbound_ids: Sequence[str]) -> dict[str, list[Row]]:
    """Return what SendGrid said of each of these mails, oldest first."""
    events = schema.delivery_events
    found: dict[str, list[Row]] = {}
    rows = connection.execute(
        sa.select(events)
        .where(events.c.outbound_id.in_(outbound_ids))
        .order_by(events.c.occurred_at, events.c.event_key)
    )
    for row in rows:
        found.setdefault(row.outbound_id, []).append(row)
    return found


# --- refund history -------------------------------------------------------------------------------


MAILS_MAX = 50
ACTS_MAX = 200


def policy_facts(connection: sa.Connection, refund: Refund) -> Mapping[str, Any]:
    """Return what the policy knew when it decided."""
    facts: Mapping[str, Any] | None = connection.scalar(
        sa.select(schema.refunds.c.policy_facts).where(
            schema.refunds.c.refund_id == refund.refund_id
        )
    )
    return facts or {}


def list_steps(connection: sa.Connection, refund: Refund) -> list[Entry]:
    """Return who was asked, what they decided and what they noted, oldest first."""
    found = timeline_entries.read_approvals(connection, refund.refund_id)
    return sorted(found, key=lambda entry: (entry.at, entry.key))


def list_mails(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    """Return our newest mails about a refund, oldest of them first."""
    mails = schema.outbound_mails
    query = timeline_entries.mails_out(
        sa.or_(
            mails.c.refund_id == refund_id,
            mails.c.outbound_id
            == sa.select(schema.refunds.c.receipt_id)
            .where(schema.refunds.c.refund_id == refund_id)
            .scalar_subquery(),
        )
    )
    rows = connection.execute(
        query.order_by(mails.c.created_at.desc(), mails.c.outbound_id).limit(MAILS_MAX)
    ).all()
    return rows[::-1]


def list_audit(connection: sa.Connection, refund_id: str) -> list[Entry]:
    """Return what the audit trail says was done to a refund, oldest first."""
    rows = connection.execute(
        sa.select(schema.audit)
        .where(schema.audit.c.subject == refund_id)
        .order_by(schema.audit.c.audit_id)
        .limit(ACTS_MAX)
    )
    return [Entry(row.at, f"audit:{row.audit_id}", EntryKind.AUDIT, row._asdict()) for row in rows]
