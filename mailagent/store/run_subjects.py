"""What a row that a workflow looks after is about: its conversation, order, refund and customer."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.run_about import RunAbout
from mailagent.store import schema

_conversations, _refunds, _mails = schema.conversations, schema.refunds, schema.outbound_mails


def describe(connection: sa.Connection, subject: str) -> RunAbout:
    """Return what the row with the id `subject` is about; nothing when there is none such."""
    match subject.partition("_")[0]:
        case "conversation":
            return _of_conversation(connection, subject)
        case "refund":
            return _of_refund(connection, subject)
        case "outbound":
            return _of_mail(connection, subject)
    return RunAbout()


def _of_conversation(connection: sa.Connection, conversation_id: str) -> RunAbout:
    email = connection.scalar(
        sa.select(_conversations.c.customer_email).where(
            _conversations.c.conversation_id == conversation_id
        )
    )
    return RunAbout(conversation_id=conversation_id, customer_email=email)


def _of_refund(connection: sa.Connection, refund_id: str) -> RunAbout:
    query = (
        sa.select(
            _refunds.c.order_id, _conversations.c.conversation_id, _conversations.c.customer_email
        )
        .join_from(_refunds, _conversations)
        .where(_refunds.c.refund_id == refund_id)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return RunAbout(refund_id=refund_id)
    return RunAbout(row.conversation_id, row.order_id, refund_id, row.customer_email)


def _of_mail(connection: sa.Connection, outbound_id: str) -> RunAbout:
    same_refund = _refunds.c.refund_id == _mails.c.refund_id
    conversation_id = sa.func.coalesce(_mails.c.conversation_id, _refunds.c.conversation_id)
    query = (
        sa.select(
            conversation_id.label("conversation_id"),
            _refunds.c.order_id,
            _mails.c.refund_id,
            _conversations.c.customer_email,
        )
        .select_from(
            _mails.outerjoin(_refunds, same_refund).outerjoin(
                _conversations, _conversations.c.conversation_id == conversation_id
            )
        )
        .where(_mails.c.outbound_id == outbound_id)
    )
    row = connection.execute(query).one_or_none()
    return RunAbout() if row is None else RunAbout(*row)
