"""What the model is told of a batch: the rows as they were when the run took the batch. So every call begins
with the same text, and the provider's prompt cache is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.agent import prompt
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.refunds.goodwill import hide_codes
from mailagent.store.mail import conversations, inbound, outbound
from mailagent.store.refunds import goodwill
from mailagent.workflows.steps.conversation.batch import Batch, taken_at

HISTORY_MAILS = 20


@dataclass(frozen=True, slots=True)
class Case:
    """The first item that the model reads, and the conversation that it is about."""

    item: dict[str, Any]
    conversation: Conversation


def read_case(connection: sa.Connection, batch: Batch) -> Case:
    """Return what the model reads first: earlier mail of the conversation, and the mails of the batch."""
    conversation = conversations.load(connection, batch["conversation_id"])
    until, mail_ids = taken_at(batch), batch["mail_ids"]
    # Mail that came or was written after the batch was taken is another batch's.
    theirs = inbound.list_latest(
        connection, batch["conversation_id"], HISTORY_MAILS, until, also=mail_ids
    )
    ours = outbound.list_to_customer(
        connection, conversation.conversation_id, conversation.customer_email, HISTORY_MAILS, until
    )
    mails = [mail for mail in theirs if mail.mail_id in mail_ids]
    # If the batch is proven, leave out mail that may be forged: the model must not take it for the customer's.
    past = [
        prompt.PastMail(prompt.Author.CUSTOMER, mail.received_at, mail.new_text)
        for mail in theirs
        if mail.mail_id not in mail_ids and (mail.identity.proven or not batch["verified"])
    ]
    past += [prompt.PastMail(prompt.Author.SHOP, row.created_at, row.text) for row in ours]
    # Content retention empties the text of old mails.
    history = sorted((mail for mail in past if mail.text), key=lambda mail: mail.at)
    item = prompt.case_item(batch["verified"], history, mails)
    # The model never sees a discount code, even where a mail quotes one.
    codes = goodwill.list_of_customer(connection, conversation.customer_email)
    hidden = hide_codes(item["content"], tuple(each.code for each in codes))
    return Case({**item, "content": hidden}, conversation)
