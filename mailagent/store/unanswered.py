"""What a run begins with, in one question: a conversation, its mails that wait for an answer, and whether there
is anything behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.conversation import Conversation
from mailagent.domain.mail import InboundMail
from mailagent.store import conversations, mailbox, past, schema

_mails = schema.inbound_mails
# Not those of the row: what lies behind a thread is looked up once, not for each mail that waits.
_here: sa.BindParameter[str] = sa.bindparam("conversation_id")
_the_same = schema.conversations.alias("same")
_email = (
    sa.select(_the_same.c.customer_email)
    .where(_the_same.c.conversation_id == _here)
    .scalar_subquery()
)

_ALL = (
    sa.select(
        _mails,
        *conversations.LABELLED,
        sa.or_(
            past.was_written(_here), past.has_settled_mail(_here), past.has_codes(_here, _email)
        ).label("has_past"),
        past.was_answered_by_itself(_here, _email, sa.bindparam("since")).label("was_answered"),
    )
    .select_from(schema.conversations)
    .outerjoin(_mails, mailbox.IS_UNANSWERED_HERE)
    .where(schema.conversations.c.conversation_id == _here)
    .order_by(_mails.c.received_at, _mails.c.mail_id)
)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """`mails` wait for an answer, oldest first. `has_past`: there may be more of this thread that a model is
    told of, or must not see. `was_answered`: the agent may have answered this customer, or the fuse have
    stopped them, since the time that was asked about."""

    conversation: Conversation
    mails: tuple[InboundMail, ...]
    has_past: bool
    was_answered: bool


def load(connection: sa.Connection, conversation_id: str, since: datetime) -> Unanswered:
    """Return what is unanswered of a conversation that must exist. Raises LookupError."""
    values = {"conversation_id": conversation_id, "since": since}
    rows = connection.execute(_ALL, values).all()
    if not rows:
        raise LookupError(f"conversation {conversation_id} does not exist")
    mails = tuple(mailbox.from_row(row) for row in rows if row.mail_id is not None)
    first = rows[0]
    return Unanswered(
        conversations.from_labelled(first), mails, bool(first.has_past), bool(first.was_answered)
    )
