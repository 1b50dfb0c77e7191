"""What the model is told of the mails of a run: read from rows as they were when the run took the mails up, so
that it is the same at each turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import prompt
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.circuit_breaker import Breaker, Provider
from mailagent.domain.refunds.goodwill import hide_codes
from mailagent.store.database import END_OF_TIME
from mailagent.store.mail import conversations, correspondence, inbound
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds import goodwill
from mailagent.workflows.steps.conversation.batch import Batch

HISTORY_MAILS = 20


@dataclass(frozen=True, slots=True)
class Case:
    """The first item the model reads, the customer's address, and how the model's provider is."""

    item: dict[str, Any]
    address: str
    breaker: Breaker | None


class CaseOfStep:
    """The case for the asks of one step: read once, unless the provider was in trouble, of which each ask
    changes something."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._found: Case | None = None

    def find(self) -> Case:
        """Return the case."""
        if self._found is None or self._found.breaker is not None:
            self._found = case_of(self._batch)
        return self._found


def case_of(batch: Batch) -> Case:
    """Read the case of some mails."""
    with services.current().database.snapshot() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        breaker = circuit_breakers.find(connection, Provider.OPENAI)
        item = _case_item(connection, conversation, batch)
    return Case(item, conversation.customer_email, breaker)


def _case_item(
    connection: sa.Connection, conversation: Conversation, batch: Batch
) -> dict[str, Any]:
    mails = inbound.list_by_id(connection, batch["mail_ids"])
    history = _history(connection, conversation, batch)
    codes = goodwill.list_of_customer(connection, conversation.customer_email)
    item = prompt.case_item(batch["verified"], history, mails)
    # The codes of discounts are mailed and never told to the model, nor when they are quoted to us.
    return {**item, "content": hide_codes(item["content"], tuple(each.code for each in codes))}


def _until(batch: Batch) -> datetime:
    taken_at = batch.get("taken_at")
    return datetime.fromisoformat(taken_at) if taken_at else END_OF_TIME


def _history(
    connection: sa.Connection,
    conversation: Conversation,
    batch: Batch,
) -> list[prompt.PastMail]:
    """Return the earlier mails of a conversation, without those of the batch, oldest first.

    With a batch of proven senders no mail that somebody may have forged: it must not be taken for a wish of
    whoever is proven now. What came or was written since the batch was taken is not in it: each turn tells
    the same case, so that the provider finds it in its cache, and another batch's mail is not answered.
    """
    here = (conversation.conversation_id, conversation.customer_email)
    until = _until(batch)
    theirs = inbound.list_latest(connection, batch["conversation_id"], HISTORY_MAILS, until)
    ours = correspondence.list_to_customer(connection, *here, HISTORY_MAILS, until)
    past = [
        prompt.PastMail(prompt.Author.CUSTOMER, mail.received_at, mail.new_text)
        for mail in theirs
        if mail.mail_id not in batch["mail_ids"] and (mail.identity.proven or not batch["verified"])
    ]
    past += [prompt.PastMail(prompt.Author.SHOP, row.created_at, row.text) for row in ours]
    # Of what was said long ago only the time may be left.
    return sorted((mail for mail in past if mail.text), key=lambda mail: mail.at)
