"""Hand a conversation back from people to the agent."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import Identity
from mailagent.store.mail import assignments, conversations, inbound


def give_back(connection: sa.Connection, conversation_id: str) -> bool:
    """Hand a conversation back to the agent and enqueue its unanswered mail. Return False if the agent has
    it already. The caller has locked the conversation, and records who did this."""
    conversation = conversations.load(connection, conversation_id)
    if conversation.status is ConversationStatus.OPEN:
        return False
    workflow_client = services.current().workflow_client
    waiting = assignments.give_back(connection, conversation)
    conversations.give_back(connection, conversation_id)
    if waiting:
        *earlier, newest = waiting
        run_id = workflow_client.queue.enqueue_conversation(
            connection,
            conversation_id,
            newest.mail_id,
            newest.wake_ups + 1,
            proven=Identity(newest.identity).proven,
        )
        inbound.count_wake_up(connection, newest.mail_id, run_id)
        for mail in earlier:
            inbound.set_run(connection, mail.mail_id, run_id)
    return True
