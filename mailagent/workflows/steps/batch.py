"""The mails that one run works on together, and what is to be done with them."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail import InboundMail, MailKind
from mailagent.store import conversations, mailbox, outbox
from mailagent.workflows.steps.recording import step


class Batch(TypedDict):
    """The mails that one run works on together; either all of their senders are proven or none.

    `task`: `answer` them, `pass_on` to people, `forward` the team's words, or `stop` a loop.
    """

    conversation_id: str
    mail_ids: list[str]
    verified: bool
    task: str


@step
def take_batch(conversation_id: str) -> Batch | None:
    """Find what is unanswered in a thread; None when nothing is."""
    with services.current().database.snapshot() as connection:
        conversation = conversations.load(connection, conversation_id)
        waiting = mailbox.list_unanswered(connection, conversation_id)
        if not waiting:
            return None
        first = waiting[0]
        task = _task(connection, conversation, first)
    # A forged mail must not be answered along with an honest one as if both were honest.
    together = [
        mail
        for mail in waiting
        if (mail.kind, mail.identity.proven) == (first.kind, first.identity.proven)
    ]
    return Batch(
        conversation_id=conversation_id,
        mail_ids=[mail.mail_id for mail in together],
        verified=first.identity.proven,
        task=task,
    )


def _task(connection: sa.Connection, conversation: Conversation, mail: InboundMail) -> str:
    if mail.kind is MailKind.TEAM:
        return "forward"
    if conversation.handed_over_reason == HandOverReason.FUSE.value:
        return "stop"
    if conversation.status is ConversationStatus.HANDED_OVER:
        return "pass_on"
    return "stop" if _has_blown_the_fuse(connection, conversation) else "answer"


def _has_blown_the_fuse(connection: sa.Connection, conversation: Conversation) -> bool:
    """Whether so many automatic answers went out lately that a machine may be answering them."""
    live = services.current()
    since, limits = live.now() - timedelta(hours=1), live.limits
    in_thread = outbox.count_answers(
        connection, since, conversation_id=conversation.conversation_id
    )
    to_sender = outbox.count_answers(connection, since, address=conversation.customer_email)
    return in_thread >= limits.answers_per_hour or to_sender >= limits.answers_to_sender_per_hour
