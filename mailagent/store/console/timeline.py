"""A conversation as one list of what happened, in order of time, read in pages from the newest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.console.timeline_entries import SOURCES, Entry
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
    """Return the row of a conversation with what waits in it: `unanswered` and `parked` mails, and
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
        for status in ("unanswered", "parked")
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
