"""Where a refund was asked for: its conversation and its mail, in one question."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.conversation import Conversation
from mailagent.domain.mail import InboundMail
from mailagent.domain.refund import Refund
from mailagent.store import conversations, mailbox, schema

_mails = schema.inbound_mails

_BOTH = (
    sa.select(_mails, *conversations.LABELLED)
    .select_from(schema.conversations)
    .outerjoin(_mails, _mails.c.mail_id == sa.bindparam("mail_id"))
    .where(schema.conversations.c.conversation_id == sa.bindparam("conversation_id"))
)


def load(connection: sa.Connection, refund: Refund) -> tuple[Conversation, InboundMail | None]:
    """Return the conversation of a refund, which must exist, and the mail that asked for it. Raises
    LookupError."""
    values = {"conversation_id": refund.conversation_id, "mail_id": refund.mail_id}
    row = connection.execute(_BOTH, values).one_or_none()
    if row is None:
        raise LookupError(f"conversation {refund.conversation_id} does not exist")
    mail = mailbox.from_row(row) if row.mail_id is not None else None
    return conversations.from_labelled(row), mail
