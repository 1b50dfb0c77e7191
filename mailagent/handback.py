"""Hand a conversation back from people to the agent."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import Identity
from mailagent.store.database import Row
from mailagent.store.mail import assignments, conversations, inbound


def give_back(connection: sa.Connection, conversation_id: str) -> bool:
    """Hand a conversation back to the agent and enqueue its unanswered mail. Return False if the agent has
    it already. The caller has locked the conversation, and records who did this."""
    conversation = conversations.load(connection, conversation_id)
    if conversation.status is ConversationStatus.OPEN:
        return False
    waiting = assignments.give_back(connection, conversation)
    conversations.give_back(connection, conversation_id)
    for proven in (True, False):  # they have runs of their own
        alike = [mail for mail in waiting if Identity(mail.identity).proven is proven]
        if alike:
            _enqueue(connection, conversation_id, alike, proven)
    return True


def _enqueue(
    connection: sa.Connection, conversation_id: str, waiting: Sequence[Row], proven: bool
) -> None:
    *earlier, newest = waiting
    run_id = services.current().workflow_client.queue.enqueue_conversation(
        connection, conversation_id, newest.mail_id, newest.wake_ups + 1, proven=proven
    )
    inbound.count_wake_up(connection, newest.mail_id, run_id)
    for mail in earlier:
        inbound.set_run(connection, mail.mail_id, run_id)
