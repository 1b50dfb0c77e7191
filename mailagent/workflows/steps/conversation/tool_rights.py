"""For whom and when a tool may do something: the customer of the thread, while the mail waits."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.store.mail import conversations, inbound
from mailagent.workflows.steps.conversation.batch import Batch


def customer_of(connection: sa.Connection, batch: Batch) -> str:
    """Return the address whose orders the tools reach."""
    return conversations.load_address(connection, batch["conversation_id"])


def is_waiting(connection: sa.Connection, batch: Batch) -> bool:
    """Say whether the batch still waits for an answer: a replayed run may be late with its wishes.

    As for a reply: where people took one of the mails, or one has a draft that waits, the agent is
    through with all of them.
    """
    mails = inbound.list_by_id(connection, batch["mail_ids"])
    return all(mail.awaits_agent for mail in mails)
