"""Which rows are still open: what was recorded while they were looked after is needed, however old."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema

_refunds, _inbound, _outbound = schema.refunds.c, schema.inbound_mails.c, schema.outbound_mails.c

UNDECIDED = (RefundStatus.AWAITING_APPROVAL.value, RefundStatus.APPROVED.value)
UNANSWERED = (MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value)
UNSENT = (OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value)


def find_open(connection: sa.Connection, subjects: Collection[str]) -> set[str]:
    """Return which of these refunds, conversations and mails of ours have not come to their end."""
    told = sa.or_(
        _refunds.receipt_id.is_not(None),
        sa.exists().where(_outbound.dedup_key == sa.literal("outcome:").concat(_refunds.refund_id)),
    )
    ended_untold = sa.and_(_refunds.status != RefundStatus.WITHDRAWN.value, ~told)
    queries = (
        sa.select(_refunds.refund_id).where(
            _refunds.refund_id.in_(subjects),
            sa.or_(_refunds.status.in_(UNDECIDED), ended_untold),
        ),
        sa.select(_inbound.conversation_id).where(
            _inbound.conversation_id.in_(subjects), _inbound.status.in_(UNANSWERED)
        ),
        sa.select(_outbound.outbound_id).where(
            _outbound.outbound_id.in_(subjects), _outbound.status.in_(UNSENT)
        ),
    )
    return {each for query in queries for each in connection.scalars(query)}


def nothing_is_open(conversation_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the question whether a conversation has nothing that waits or is under way."""
    drafts = schema.drafts.c
    return sa.not_(
        sa.or_(
            sa.exists().where(
                _inbound.conversation_id == conversation_id, _inbound.status.in_(UNANSWERED)
            ),
            sa.exists().where(
                _outbound.conversation_id == conversation_id, _outbound.status.in_(UNSENT)
            ),
            sa.exists().where(
                _refunds.conversation_id == conversation_id, _refunds.status.in_(UNDECIDED)
            ),
            sa.exists().where(drafts.conversation_id == conversation_id, drafts.state == "waiting"),
        )
    )
