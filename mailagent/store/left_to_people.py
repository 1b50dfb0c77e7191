"""Mail that the agent left to the people who look after its conversation, until they answer it or give
it back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail import MailKind, MailStatus
from mailagent.store import mailbox, schema
from mailagent.store.database import Row

_mails = schema.inbound_mails

# Why the agent does not answer it.
PEOPLE_ANSWER = "people look after this conversation"

_LEFT = sa.and_(
    _mails.c.no_answer_reason == PEOPLE_ANSWER, _mails.c.kind == MailKind.CUSTOMER.value
)


def leave(connection: sa.Connection, conversation_id: str) -> None:
    """Leave all mail of a conversation to people that waits for the agent."""
    waiting = [mail.mail_id for mail in mailbox.list_unanswered(connection, conversation_id)]
    mailbox.leave_unanswered(connection, waiting, PEOPLE_ANSWER)


def answer(connection: sa.Connection, conversation_id: str, outbound_id: str) -> None:
    """Record that what a person wrote answers all that was left to people in a conversation."""
    connection.execute(
        _mails.update()
        .where(_mails.c.conversation_id == conversation_id, _LEFT)
        .values(status=MailStatus.ANSWERED.value, answered_by=outbound_id, no_answer_reason=None)
    )


def give_back(
    connection: sa.Connection, conversation_id: str, since: datetime | None
) -> Sequence[Row]:
    """Let the agent answer what was left to people in a conversation since they last wrote (None: they
    never did); return all of its mails that wait for the agent now, oldest first."""
    left = sa.and_(_mails.c.conversation_id == conversation_id, _LEFT)
    if since is not None:
        left = sa.and_(left, _mails.c.received_at > since)
    connection.execute(
        _mails.update()
        .where(left)
        .values(status=MailStatus.UNANSWERED.value, no_answer_reason=None, draft_id=None)
    )
    return connection.execute(
        sa.select(_mails.c.mail_id, _mails.c.rings)
        .where(
            _mails.c.conversation_id == conversation_id,
            _mails.c.status == MailStatus.UNANSWERED.value,
            _mails.c.draft_id.is_(None),
        )
        .order_by(_mails.c.received_at, _mails.c.mail_id)
    ).all()
