"""What a run looks after, as it is now: read for whoever is about to replay the run."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.operations.rows_now import MailNow, RefundNow, RowsNow
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.store.mail import conversations, drafts
from mailagent.store.refunds import approvals, refunds

_mails, _inbound = schema.outbound_mails, schema.inbound_mails

# The newest say enough: a replay touches no others than those it wrote.
MAILS_MAX = 6


def look(connection: sa.Connection, subject: str) -> RowsNow | None:
    """Return what the row with the id `subject` is like now, or None when there is none such."""
    match subject.partition("_")[0]:
        case "conversation":
            return _of_conversation(connection, subject)
        case "refund":
            return _of_refund(connection, subject)
        case "outbound":
            found = _list_mails(connection, _mails.c.outbound_id == subject)
            return RowsNow(mails=found) if found else None
    return None


def _of_conversation(connection: sa.Connection, conversation_id: str) -> RowsNow | None:
    conversation = conversations.find(connection, conversation_id)
    if conversation is None:
        return None
    drafted = tuple(draft.draft_id for draft in drafts.list_waiting_of(connection, conversation_id))
    waiting = sa.select(sa.func.count()).where(
        _inbound.c.conversation_id == conversation_id,
        _inbound.c.status == "unanswered",
        sa.or_(_inbound.c.draft_id.is_(None), _inbound.c.draft_id.not_in(drafted)),
    )
    # Mail about a refund is its own run's.
    ours = sa.and_(_mails.c.conversation_id == conversation_id, _mails.c.refund_id.is_(None))
    return RowsNow(
        unanswered=connection.scalar(waiting) or 0,
        draft_ids=drafted,
        handed_over=conversation.status is ConversationStatus.HANDED_OVER,
        mails=_list_mails(connection, ours),
    )


def _of_refund(connection: sa.Connection, refund_id: str) -> RowsNow | None:
    refund = refunds.find(connection, refund_id)
    if refund is None:
        return None
    approval = approvals.find_of_refund(connection, refund_id)
    intents = refunds.list_payments(connection, refund_id)
    now = RefundNow(
        refund_id=refund_id,
        status=refund.status,
        amount=refund.amount,
        reference=refund.gateway_reference,
        paid_at=refund.paid_at,
        decided_by=refund.decided_by,
        expires_at=approval.expires_at if approval else None,
        asked=any(row.state == "asked" for row in intents),
    )
    return RowsNow(refund=now, mails=_list_mails(connection, _mails.c.refund_id == refund_id))


def _list_mails(connection: sa.Connection, where: sa.ColumnElement[bool]) -> tuple[MailNow, ...]:
    query = (
        sa.select(_mails.c.purpose, _mails.c.to_address, _mails.c.status, _mails.c.sent_at)
        .where(where)
        .order_by(_mails.c.created_at.desc(), _mails.c.outbound_id.desc())
        .limit(MAILS_MAX)
    )
    return _mails_now(reversed(connection.execute(query).all()))


def _mails_now(rows: Iterable[Row]) -> tuple[MailNow, ...]:
    return tuple(
        MailNow(Purpose(row.purpose), row.to_address, OutboundStatus(row.status), row.sent_at)
        for row in rows
    )
