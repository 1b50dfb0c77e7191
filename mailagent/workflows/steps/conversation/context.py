"""What the model is told of a batch: read from rows as they were when the run took the batch, so that it is the
same at each turn and the provider finds it in its cache."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.agent import prompt
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.refunds.goodwill import hide_codes
from mailagent.store.database import END_OF_TIME
from mailagent.store.mail import conversations, inbound, outbound
from mailagent.store.refunds import goodwill
from mailagent.workflows.steps.conversation.batch import Batch

HISTORY_MAILS = 20


@dataclass(frozen=True, slots=True)
class Case:
    """The first item that the model reads, and the customer's address."""

    item: dict[str, Any]
    address: str


def read_case(connection: sa.Connection, batch: Batch) -> Case:
    """Read the case of a batch."""
    conversation = conversations.load(connection, batch["conversation_id"])
    mails = inbound.list_by_id(connection, batch["mail_ids"])
    history = _history(connection, conversation, batch)
    item = prompt.case_item(batch["verified"], history, mails)
    # The model never sees a discount code, even where a mail quotes one.
    codes = goodwill.list_of_customer(connection, conversation.customer_email)
    hidden = hide_codes(item["content"], tuple(each.code for each in codes))
    return Case({**item, "content": hidden}, conversation.customer_email)


def _history(
    connection: sa.Connection, conversation: Conversation, batch: Batch
) -> list[prompt.PastMail]:
    """Return the earlier mails of a conversation, oldest first, without those of the batch.

    A batch of proven senders gets no mail that somebody may have forged: the model must not take it for a
    wish of the customer. Mail that came or was written after the batch was taken is another batch's."""
    taken_at = batch.get("taken_at")
    until = datetime.fromisoformat(taken_at) if taken_at else END_OF_TIME
    theirs = inbound.list_latest(connection, batch["conversation_id"], HISTORY_MAILS, until)
    ours = outbound.list_to_customer(
        connection, conversation.conversation_id, conversation.customer_email, HISTORY_MAILS, until
    )
    past = [
        prompt.PastMail(prompt.Author.CUSTOMER, mail.received_at, mail.new_text)
        for mail in theirs
        if mail.mail_id not in batch["mail_ids"] and (mail.identity.proven or not batch["verified"])
    ]
    past += [prompt.PastMail(prompt.Author.SHOP, row.created_at, row.text) for row in ours]
    # Content retention empties the text of old mails.
    return sorted((mail for mail in past if mail.text), key=lambda mail: mail.at)
