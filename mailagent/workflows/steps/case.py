"""What the model is told of the mails of a run: the same at each turn, and so read once at most while its
process lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import prompt
from mailagent.domain.breaker import Breaker, Provider
from mailagent.domain.conversation import Conversation
from mailagent.domain.goodwill import hide_codes
from mailagent.domain.mail import InboundMail
from mailagent.store import before_asking, goodwill, mailbox, outbox
from mailagent.store.database import END_OF_TIME
from mailagent.workflows.steps import kept_cases
from mailagent.workflows.steps.batch import Batch

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
    database = services.current().database
    with database.statement(reads=True) as connection:
        conversation, breaker = before_asking.load(
            connection, batch["conversation_id"], Provider.OPENAI
        )
    text = kept_cases.kept.find(batch, conversation)
    if text is None:
        with database.snapshot() as connection:
            text = _write(connection, conversation, batch)
        kept_cases.kept.keep(batch, conversation, text)
    return Case({"role": "user", "content": text}, conversation.customer_email, breaker)


def _write(connection: sa.Connection, conversation: Conversation, batch: Batch) -> str:
    theirs = _theirs(connection, batch)
    mails = of_batch(connection, batch, theirs)
    history = _history(connection, conversation, batch, theirs)
    codes = goodwill.list_of_customer(connection, conversation.customer_email)
    case: str = prompt.case_item(batch["verified"], history, mails)["content"]
    # The codes of discounts are mailed and never told to the model, nor when they are quoted to us.
    return hide_codes(case, tuple(each.code for each in codes))


def _theirs(connection: sa.Connection, batch: Batch) -> tuple[InboundMail, ...]:
    """Return the latest mails of the conversation when the batch was taken."""
    return mailbox.list_latest(connection, batch["conversation_id"], HISTORY_MAILS, _until(batch))


def _until(batch: Batch) -> datetime:
    taken_at = batch.get("taken_at")
    return datetime.fromisoformat(taken_at) if taken_at else END_OF_TIME


def of_batch(
    connection: sa.Connection, batch: Batch, theirs: Sequence[InboundMail]
) -> tuple[InboundMail, ...]:
    """Return the batch's mails, oldest first; nearly always they are among the latest."""
    found = tuple(mail for mail in theirs if mail.mail_id in batch["mail_ids"])
    if len(found) == len(batch["mail_ids"]):
        return found
    return mailbox.list_by_id(connection, batch["mail_ids"])


def _history(
    connection: sa.Connection,
    conversation: Conversation,
    batch: Batch,
    theirs: Sequence[InboundMail],
) -> list[prompt.PastMail]:
    """Return the earlier mails of a conversation, without those of the batch, oldest first.

    With a batch of proven senders no mail that somebody may have forged: it must not be taken for a wish of
    whoever is proven now. What came or was written since the batch was taken is not in it: each turn tells
    the same case, so that the provider finds it in its cache, and another batch's mail is not answered.
    """
    here = (conversation.conversation_id, conversation.customer_email)
    ours = outbox.list_to_customer(connection, *here, HISTORY_MAILS, _until(batch))
    past = [
        prompt.PastMail(prompt.Author.CUSTOMER, mail.received_at, mail.new_text)
        for mail in theirs
        if mail.mail_id not in batch["mail_ids"] and (mail.identity.proven or not batch["verified"])
    ]
    past += [prompt.PastMail(prompt.Author.SHOP, row.created_at, row.text) for row in ours]
    # Of what was said long ago only the time may be left.
    return sorted((mail for mail in past if mail.text), key=lambda mail: mail.at)
