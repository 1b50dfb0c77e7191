"""What the loop guard does: mail is left to people, who hear of it at most once an hour for each thread.

When it blows and when it cools down is decided by `domain.conversation`, asked by `batch`.
"""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HOUR, Conversation, HandOverReason
from mailagent.domain.mail.message import Purpose
from mailagent.store import audit
from mailagent.store.mail import conversations, correspondence, outbound, throttled
from mailagent.workflows.steps.conversation.batch import Batch, is_answered_too_often
from mailagent.workflows.steps.maintenance.rows import see_to_each
from mailagent.workflows.steps.recording import step

CONVERSATIONS_AT_ONCE = 500


@step
def stop_loop(batch: Batch) -> list[str]:
    """Give mail to people because too much was answered lately. Returns the mails to send.

    A replay that comes when nothing waits any more, or when the loop guard is no longer tripped, changes
    nothing: people may have given the conversation back, and the mail with it.
    """
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        if not is_answered_too_often(connection, conversation, batch["verified"]):
            return _written_before(connection, batch)
        if not throttled.throttle_by_loop_guard(connection, batch["mail_ids"]):
            return _written_before(connection, batch)
        if not conversation.stopped_by_loop_guard:
            why = HandOverReason.LOOP_DETECTED.value
            conversations.hand_over(connection, conversation.conversation_id, why, live.now())
            audit.record(
                connection, live.now(), audit.CLOCK, "loop detected", conversation.conversation_id
            )
        return _tell_people(connection, conversation)


def _written_before(connection: sa.Connection, batch: Batch) -> list[str]:
    """Return the mails that an earlier try of this step wrote and perhaps nobody has sent."""
    conversation_id = batch["conversation_id"]
    return [
        outbound_id
        for mail_id in batch["mail_ids"]
        for outbound_id in outbound.list_by_subject(connection, conversation_id, f"loop:{mail_id}")
    ]


def tell_people_of_stopped_mail() -> None:
    """Write the mails that are due: an hour after the last one of the thread."""
    live = services.current()
    with live.database.snapshot() as connection:
        waiting = throttled.list_conversations_in_loop(connection, CONVERSATIONS_AT_ONCE)
    see_to_each(waiting, str, _enqueue_mails)


def _enqueue_mails(conversation_id: str) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, conversation_id)
        outbound_ids = _tell_people(connection, conversation)
        for outbound_id in outbound_ids:
            live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
    return len(outbound_ids)


def _tell_people(connection: sa.Connection, conversation: Conversation) -> list[str]:
    live, conversation_id = services.current(), conversation.conversation_id
    latest = correspondence.latest_at(connection, conversation_id, Purpose.HAND_OVER)
    if latest is not None and live.now() - latest < HOUR:
        return []
    mail_ids = throttled.close_throttled_by_loop_guard(connection, conversation_id)
    if not mail_ids:
        return []
    why = f"{HandOverReason.LOOP_DETECTED.value} (mails left unanswered: {len(mail_ids)})"
    return mailers.write_to_team(connection, conversation, why, None, f"loop:{mail_ids[-1]}")
