"""Where the entries of a timeline come from: each source gives its newest up to a moment.

What they make together is for `timeline`. What the workflow engine recorded is not here: it keeps its
own books.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema

# More than anybody reads of one mail; the raw mail has the rest.
TEXT_MAX_LENGTH = 20_000
# More than managers that can be asked about one refund.
APPROVALS_MAX = 100


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
    GOODWILL = "goodwill"
    DRAFT = "draft"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened. `key` is unique within a timeline, and the order of one moment."""

    at: datetime
    key: str
    kind: EntryKind
    facts: Mapping[str, Any]


_Source = Callable[[sa.Connection, str, datetime | None, int], Sequence[Entry]]

_inbound, _outbound = (
    schema.inbound_mails,
    schema.outbound_mails,
)
_refunds, _approvals, _audit = schema.refunds, schema.approvals, schema.audit


def _entries(
    connection: sa.Connection,
    kind: EntryKind,
    query: sa.Select[Any],
    at: sa.ColumnElement[datetime],
    keys: Sequence[str],
    before: datetime | None,
    limit: int,
) -> Sequence[Entry]:
    """Return the newest rows of a query up to a moment as entries; `keys` name the columns that tell
    them apart."""
    if before is not None:
        query = query.where(at <= before)
    rows = connection.execute(
        query.add_columns(at.label("entry_at")).order_by(at.desc()).limit(limit)
    )
    return [
        Entry(
            row.entry_at,
            ":".join([kind.value, *(str(row._mapping[key]).rjust(20, "0") for key in keys)]),
            kind,
            row._asdict(),
        )
        for row in rows
    ]


def _cut(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, TEXT_MAX_LENGTH).label(column.name)


def _mails_in(
    connection: sa.Connection, conversation_id: str, before: datetime | None, limit: int
) -> Sequence[Entry]:
    raw = schema.raw_mails
    names = (
        "mail_id", "from_address", "from_name", "subject", "attachments", "flags", "identity", "kind",
        "status", "no_answer_reason", "run_id",
    )  # fmt: skip
    query = (
        sa.select(
            *(_inbound.c[name] for name in names),
            _cut(_inbound.c.new_text),
            _cut(_inbound.c.body),
            raw.c.mail_id.is_not(None).label("kept"),
        )
        .outerjoin(raw, raw.c.mail_id == _inbound.c.mail_id)
        .where(_inbound.c.conversation_id == conversation_id)
    )
    at = _inbound.c.received_at
    return _entries(connection, EntryKind.MAIL_IN, query, at, ["mail_id"], before, limit)


def mails_out(where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query of our mails as pages list them, without their HTML."""
    names = (
        "outbound_id", "conversation_id", "refund_id", "purpose", "to_address", "subject", "status",
        "error", "sent_at", "created_at", "sent_again_why",
    )  # fmt: skip
    columns = (*(_outbound.c[name] for name in names), _cut(_outbound.c.text))
    return sa.select(*columns).where(where)


def _mails_out(
    connection: sa.Connection, conversation_id: str, before: datetime | None, limit: int
) -> Sequence[Entry]:
    query = mails_out(
        sa.or_(
            _outbound.c.conversation_id == conversation_id,
            _outbound.c.refund_id.in_(_refund_ids(conversation_id)),
        )
    )
    at = _outbound.c.created_at
    return _entries(connection, EntryKind.MAIL_OUT, query, at, ["outbound_id"], before, limit)


def _refund_ids(conversation_id: str) -> sa.Select[tuple[str]]:
    return sa.select(_refunds.c.refund_id).where(_refunds.c.conversation_id == conversation_id)


def _of_table(
    kind: EntryKind, table: sa.Table, at: sa.ColumnElement[datetime], key: str
) -> _Source:
    """Return the source of a table whose rows name their conversation."""

    def read(
        connection: sa.Connection, conversation_id: str, before: datetime | None, limit: int
    ) -> Sequence[Entry]:
        query = sa.select(table).where(table.c.conversation_id == conversation_id)
        return _entries(connection, kind, query, at, [key], before, limit)

    return read


def _of_approvals(
    kind: EntryKind, table: sa.Table, at: sa.ColumnElement[datetime], keys: Sequence[str]
) -> _Source:
    """Return the source of a table whose rows name an approval of one of the conversation's refunds."""

    def read(
        connection: sa.Connection, conversation_id: str, before: datetime | None, limit: int
    ) -> Sequence[Entry]:
        query = _with_refund(table).where(_refunds.c.conversation_id == conversation_id)
        return _entries(connection, kind, query, at, keys, before, limit)

    return read


def _with_refund(table: sa.Table) -> sa.Select[Any]:
    # Not `reply_token`: whoever knows it may decide.
    columns = [column for column in table.c if column.name != "reply_token"]
    return (
        sa.select(*columns, _refunds.c.refund_id, _refunds.c.currency)
        .join(_approvals, _approvals.c.approval_id == table.c.approval_id)
        .join(_refunds, _refunds.c.refund_id == _approvals.c.refund_id)
    )


def read_approvals(connection: sa.Connection, refund_id: str) -> list[Entry]:
    """Return who was asked to decide on a refund, what they decided and noted, in no order."""
    found: list[Entry] = []
    for kind, table, at, keys in _APPROVALS:
        query = _with_refund(table).where(_refunds.c.refund_id == refund_id)
        found += _entries(connection, kind, query, at, keys, None, APPROVALS_MAX)
    return found


_APPROVALS: tuple[tuple[EntryKind, sa.Table, sa.ColumnElement[datetime], tuple[str, ...]], ...] = (
    (
        EntryKind.ASK,
        schema.approval_requests,
        schema.approval_requests.c.asked_at,
        ("approval_id", "question", "manager_email"),
    ),
    (EntryKind.DECISION, schema.decisions, schema.decisions.c.decided_at, ("approval_id",)),
    (
        EntryKind.COUNTERSIGNATURE,
        schema.countersignatures,
        schema.countersignatures.c.decided_at,
        ("approval_id",),
    ),
    (EntryKind.NOTE, schema.approval_notes, schema.approval_notes.c.written_at, ("mail_id",)),
)


# Acts that entries of their own tell better: the answer, the ask, the refund.
_SAID_BY_ENTRIES = ("mail answered", "manager asked", "refund awaiting_approval")


def _audited(
    connection: sa.Connection, conversation_id: str, before: datetime | None, limit: int
) -> Sequence[Entry]:
    """Return what was done to the conversation and to what belongs to it."""
    own = sa.select(sa.literal(conversation_id))
    here = [
        sa.select(table.c[key]).where(table.c.conversation_id == conversation_id)
        for table, key in (
            (_refunds, "refund_id"),
            (_inbound, "mail_id"),
            (_outbound, "outbound_id"),
            (schema.drafts, "draft_id"),
        )
    ]
    query = sa.select(_audit).where(
        _audit.c.subject.in_(sa.union_all(own, *here)),
        _audit.c.action.not_in(_SAID_BY_ENTRIES),
    )
    return _entries(connection, EntryKind.AUDIT, query, _audit.c.at, ["audit_id"], before, limit)


SOURCES: tuple[_Source, ...] = (
    _mails_in,
    _mails_out,
    _of_table(EntryKind.MODEL_CALL, schema.model_calls, schema.model_calls.c.at, "call_id"),
    _of_table(EntryKind.REFUND, _refunds, _refunds.c.requested_at, "refund_id"),
    _of_table(
        EntryKind.GOODWILL,
        schema.goodwill_codes,
        schema.goodwill_codes.c.issued_at,
        "order_id",
    ),
    _of_table(EntryKind.DRAFT, schema.drafts, schema.drafts.c.created_at, "draft_id"),
    *(_of_approvals(*each) for each in _APPROVALS),
    _audited,
)
