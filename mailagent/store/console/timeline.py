"""The timeline of a conversation or refund: its events in order of time, read in pages from the newest.

The steps of runs, which DBOS records, are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailKind
from mailagent.store import audit, schema
from mailagent.store.database import Row, count_rows
from mailagent.store.mail import assignments
from mailagent.store.pagination import Cursor, Part

PAGE_LENGTH = 100
# We read at most so many rows of one table with the same time.
SAME_MOMENT_MAX = 50
# Characters of a mail that a page shows. The raw mail has the rest.
TEXT_MAX_LENGTH = 20_000
# No refund has more requests to managers.
APPROVALS_MAX = 100
MAILS_MAX = 50
ACTS_MAX = 200

_inbound, _outbound = schema.inbound_mails, schema.outbound_mails
_refunds, _approvals, _audit = schema.refunds, schema.approvals, schema.audit


class EntryKind(StrEnum):
    MAIL_IN = "mail_in"
    MAIL_OUT = "mail_out"
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    REFUND = "refund"
    ASK = "ask"
    DECISION = "decision"
    COUNTERSIGNATURE = "countersignature"
    NOTE = "note"
    INTERNAL_NOTE = "internal_note"
    GOODWILL = "goodwill"
    DRAFT = "draft"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. `key` is unique within a timeline, and orders events of the same time."""

    at: datetime
    key: str
    kind: EntryKind
    facts: Mapping[str, Any]

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at, self.key)


@dataclass(frozen=True, slots=True)
class _Source:
    """A table whose rows are events of one kind. `keys`: the columns of its primary key."""

    kind: EntryKind
    query: sa.Select[Any]
    at: sa.ColumnElement[datetime]
    keys: Sequence[str]

    def read(
        self, connection: sa.Connection, until: datetime | None, limit: int
    ) -> Iterator[Entry]:
        """Return the newest rows up to a time, at most `limit`, as entries."""
        query = self.query.add_columns(self.at.label("entry_at"))
        if until is not None:
            query = query.where(self.at <= until)
        for row in connection.execute(query.order_by(self.at.desc()).limit(limit)):
            keys = (str(row._mapping[key]).rjust(20, "0") for key in self.keys)
            yield Entry(row.entry_at, ":".join([self.kind, *keys]), self.kind, row._asdict())


def read_page(
    connection: sa.Connection,
    conversation_id: str,
    before: Cursor | None,
    length: int = PAGE_LENGTH,
) -> Part[Entry]:
    """Return the page of a conversation's entries that are older than the cursor `before`; None: the newest
    page."""
    # One more than a page, to see whether there is another page; and the rows with the cursor's own time.
    limit = length + 1 + (SAME_MOMENT_MAX if before else 0)
    found = [
        entry
        for source in _sources(conversation_id)
        for entry in source.read(connection, before.at if before else None, limit)
        if before is None or entry.cursor < before
    ]
    found.sort(key=lambda entry: entry.cursor, reverse=True)
    page = found[:length]
    return Part(tuple(page), older=page[-1].cursor if len(found) > length else None)


def _sources(conversation_id: str) -> list[_Source]:
    calls, codes, drafts = schema.model_calls, schema.goodwill_codes, schema.drafts
    notes = schema.conversation_notes
    own = [
        (EntryKind.INTERNAL_NOTE, notes, notes.c.written_at, "note_id"),
        (EntryKind.MODEL_CALL, calls, calls.c.at, "call_id"),
        (EntryKind.REFUND, _refunds, _refunds.c.requested_at, "refund_id"),
        (EntryKind.GOODWILL, codes, codes.c.issued_at, "order_id"),
        (EntryKind.DRAFT, drafts, drafts.c.created_at, "draft_id"),
    ]
    return [
        _mails_in(conversation_id),
        _mails_out(conversation_id),
        *(
            _Source(
                kind, sa.select(table).where(table.c.conversation_id == conversation_id), at, [key]
            )
            for kind, table, at, key in own
        ),
        *_approval_sources(_refunds.c.conversation_id == conversation_id),
        _audited(conversation_id),
    ]


def _cut(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, TEXT_MAX_LENGTH).label(column.name)


def _mails_in(conversation_id: str) -> _Source:
    raw = schema.raw_mails
    names = (
        "mail_id", "received_at", "from_address", "from_name", "subject", "attachments", "flags", "identity",
        "kind", "no_answer_reason", "run_id",
    )  # fmt: skip
    query = (
        sa.select(
            *(_inbound.c[name] for name in names),
            assignments.SHOWN_STATUS,
            _cut(_inbound.c.new_text),
            _cut(_inbound.c.body),
            raw.c.mail_id.is_not(None).label("kept"),
        )
        .outerjoin(raw, raw.c.mail_id == _inbound.c.mail_id)
        .where(_inbound.c.conversation_id == conversation_id)
    )
    return _Source(EntryKind.MAIL_IN, query, _inbound.c.received_at, ["mail_id"])


def _select_outbound(where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query of our mails without their HTML, which pages do not show."""
    names = (
        "outbound_id", "conversation_id", "refund_id", "purpose", "to_address", "subject", "status",
        "error", "sent_at", "created_at", "sent_again_why",
    )  # fmt: skip
    columns = (*(_outbound.c[name] for name in names), _cut(_outbound.c.text))
    return sa.select(*columns).where(where)


def _mails_out(conversation_id: str) -> _Source:
    refunds = sa.select(_refunds.c.refund_id).where(_refunds.c.conversation_id == conversation_id)
    query = _select_outbound(
        sa.or_(
            _outbound.c.conversation_id == conversation_id, _outbound.c.refund_id.in_(refunds)
        )
    )  # fmt: skip
    return _Source(EntryKind.MAIL_OUT, query, _outbound.c.created_at, ["outbound_id"])


def _approval_sources(whose: sa.ColumnElement[bool]) -> Iterator[_Source]:
    """Yield the sources of requests to managers, decisions and notes."""
    asks, decisions = schema.approval_requests, schema.decisions
    second, notes = schema.countersignatures, schema.approval_notes
    for kind, table, at, keys in (
        (EntryKind.ASK, asks, asks.c.asked_at, ("approval_id", "question", "manager_email")),
        (EntryKind.DECISION, decisions, decisions.c.decided_at, ("approval_id",)),
        (EntryKind.COUNTERSIGNATURE, second, second.c.decided_at, ("approval_id",)),
        (EntryKind.NOTE, notes, notes.c.written_at, ("mail_id",)),
    ):
        # Without `reply_token`: anyone who sees it could decide by a mail to that address.
        columns = [column for column in table.c if column.name != "reply_token"]
        query = (
            sa.select(*columns, _refunds.c.refund_id, _refunds.c.currency)
            .join(_approvals, _approvals.c.approval_id == table.c.approval_id)
            .join(_refunds, _refunds.c.refund_id == _approvals.c.refund_id)
            .where(whose)
        )
        yield _Source(kind, query, at, keys)


def _audited(conversation_id: str) -> _Source:
    """Return the source of the audit log's entries on the conversation and on its rows."""
    own = sa.select(sa.literal(conversation_id))
    here = [
        sa.select(table.c[key]).where(table.c.conversation_id == conversation_id)
        for table, key in (
            (_refunds, "refund_id"),
            (_inbound, "mail_id"),
            (_outbound, "outbound_id"),
            (schema.drafts, "draft_id"),
            (schema.remedies, "remedy_id"),
        )
    ]
    query = sa.select(_audit).where(
        _audit.c.subject.in_(sa.union_all(own, *here)),
        # Leave these out: the answer, the request and the refund are entries of their own.
        _audit.c.action.not_in(("mail answered", "refund awaiting_approval")),
        sa.or_(
            _audit.c.action != audit.MANAGER_ASKED,
            _audit.c.subject.in_(sa.select(schema.remedies.c.remedy_id)),
        ),
    )
    return _Source(EntryKind.AUDIT, query, _audit.c.at, ["audit_id"])


def find_latest_mail(connection: sa.Connection, conversation_id: str) -> Entry | None:
    """Return the customer's last mail, or None."""
    source = _mails_in(conversation_id)
    by_customer = replace(
        source, query=source.query.where(_inbound.c.kind == MailKind.CUSTOMER.value)
    )
    return next(by_customer.read(connection, None, 1), None)


def count_waiting(connection: sa.Connection, conversation_id: str) -> dict[str, int]:
    """Return how many mails of a conversation are `unanswered`, and how many `throttled`."""
    mail = _inbound.c
    query = (
        sa.select(mail.status, sa.func.count().label("number"))
        .where(mail.conversation_id == conversation_id)
        .group_by(mail.status)
    )
    found = {row.status: row.number for row in connection.execute(query)}
    return {status: found.get(status, 0) for status in ("unanswered", "throttled")}


def count_mails(
    connection: sa.Connection, conversation_id: str, kinds: Sequence[str], address: str
) -> tuple[int, int]:
    """Return how many inbound mails of these kinds a conversation has, and how many of our mails to an
    address."""
    came = (_inbound.c.conversation_id == conversation_id, _inbound.c.kind.in_(kinds))
    went = (_outbound.c.conversation_id == conversation_id, _outbound.c.to_address == address)
    return count_rows(connection, *came), count_rows(connection, *went)


def list_events(connection: sa.Connection, outbound_ids: Sequence[str]) -> dict[str, list[Row]]:
    """Return the delivery events of each of these mails, oldest first."""
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


def policy_facts(connection: sa.Connection, refund_id: str) -> Mapping[str, Any]:
    """Return the facts by which the policy decided on a refund."""
    query = sa.select(_refunds.c.policy_facts).where(_refunds.c.refund_id == refund_id)
    return connection.scalar(query) or {}


def list_steps(connection: sa.Connection, refund_id: str) -> list[Entry]:
    """Return the requests to managers, decisions and notes of a refund, oldest first."""
    sources = _approval_sources(_refunds.c.refund_id == refund_id)
    return _oldest_first(connection, sources, APPROVALS_MAX)


def list_mails(connection: sa.Connection, refund_id: str) -> list[Entry]:
    """Return our newest mails about a refund, in order of time."""
    receipt = sa.select(_refunds.c.receipt_id).where(_refunds.c.refund_id == refund_id)
    query = _select_outbound(
        sa.or_(
            _outbound.c.refund_id == refund_id, _outbound.c.outbound_id == receipt.scalar_subquery()
        )
    )
    source = _Source(EntryKind.MAIL_OUT, query, _outbound.c.created_at, ["outbound_id"])
    return _oldest_first(connection, [source], MAILS_MAX)


def list_audit(connection: sa.Connection, refund_id: str) -> list[Entry]:
    """Return the newest entries of the audit log about a refund, in order of time."""
    query = sa.select(_audit).where(_audit.c.subject == refund_id)
    source = _Source(EntryKind.AUDIT, query, _audit.c.at, ["audit_id"])
    return _oldest_first(connection, [source], ACTS_MAX)


def _oldest_first(connection: sa.Connection, sources: Iterable[_Source], limit: int) -> list[Entry]:
    found = [entry for source in sources for entry in source.read(connection, None, limit)]
    return sorted(found, key=lambda entry: entry.cursor)
