"""What the fuse does: mail is left to people, who hear of it at most once an hour for each thread.

When it blows and when it cools down is decided by `domain.conversation`, asked by `batch`.
"""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HOUR, Conversation, HandOverReason
from mailagent.domain.mail.message import Purpose
from mailagent.store import audit
from mailagent.store.mail import conversations, outbound, throttled
from mailagent.workflows.steps.conversation.batch import Batch, is_answered_too_often
from mailagent.workflows.steps.maintenance.rows import see_to_each
from mailagent.workflows.steps.recording import step

CONVERSATIONS_AT_ONCE = 500


@step
def stop_loop(batch: Batch) -> list[str]:
    """Give mail to people because too much was answered lately. Returns the letters to send.

    A replay that comes when nothing waits any more, or when the fuse is no longer blown, changes
    nothing: people may have given the conversation back, and the mail with it.
    """
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        if not is_answered_too_often(connection, conversation, batch["verified"]):
            return _written_before(connection, batch)
        if not throttled.park_by_fuse(connection, batch["mail_ids"]):
            return _written_before(connection, batch)
        if not conversation.stopped_by_fuse:
            why = HandOverReason.FUSE.value
            conversations.hand_over(connection, conversation.conversation_id, why, live.now())
            audit.record(
                connection, live.now(), audit.CLOCK, "fuse blown", conversation.conversation_id
            )
        return _tell_people(connection, conversation)


def _written_before(connection: sa.Connection, batch: Batch) -> list[str]:
    """Return the letters that an earlier try of this step wrote and perhaps nobody has sent."""
    conversation_id = batch["conversation_id"]
    return [
        outbound_id
        for mail_id in batch["mail_ids"]
        for outbound_id in outbound.list_of_matter(connection, conversation_id, f"fuse:{mail_id}")
    ]


def tell_people_of_stopped_mail() -> None:
    """Write the letters that are due: an hour after the last one of the thread."""
    live = services.current()
    with live.database.snapshot() as connection:
        waiting = throttled.list_conversations_with_fuse(connection, CONVERSATIONS_AT_ONCE)
    see_to_each(waiting, str, _ring_for_letters)


def _ring_for_letters(conversation_id: str) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, conversation_id)
        outbound_ids = _tell_people(connection, conversation)
        for outbound_id in outbound_ids:
            live.doorbell.ring_delivery(connection, outbound_id)
    return len(outbound_ids)


def _tell_people(connection: sa.Connection, conversation: Conversation) -> list[str]:
    live, conversation_id = services.current(), conversation.conversation_id
    latest = outbound.latest_at(connection, conversation_id, Purpose.HAND_OVER)
    if latest is not None and live.now() - latest < HOUR:
        return []
    mail_ids = throttled.close_parked_by_fuse(connection, conversation_id)
    if not mail_ids:
        return []
    why = f"{HandOverReason.FUSE.value} (mails left unanswered: {len(mail_ids)})"
    return mailers.write_to_team(connection, conversation, why, None, f"fuse:{mail_ids[-1]}")
