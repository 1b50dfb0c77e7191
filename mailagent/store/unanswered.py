"""What a run begins with: a conversation and its mails that wait for an answer, in one question."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.conversation import Conversation
from mailagent.domain.mail import InboundMail
from mailagent.store import conversations, mailbox, schema

_mails = schema.inbound_mails

_BOTH = (
    sa.select(_mails, *conversations.LABELLED)
    .select_from(schema.conversations)
    .outerjoin(_mails, mailbox.IS_UNANSWERED_HERE)
    .where(schema.conversations.c.conversation_id == sa.bindparam("conversation_id"))
    .order_by(_mails.c.received_at, _mails.c.mail_id)
)


def load(
    connection: sa.Connection, conversation_id: str
) -> tuple[Conversation, tuple[InboundMail, ...]]:
    """Return a conversation that must exist, and its mails that are unanswered, oldest first. Raises
    LookupError."""
    rows = connection.execute(_BOTH, {"conversation_id": conversation_id}).all()
    if not rows:
        raise LookupError(f"conversation {conversation_id} does not exist")
    mails = tuple(mailbox.from_row(row) for row in rows if row.mail_id is not None)
    return conversations.from_labelled(rows[0]), mails
