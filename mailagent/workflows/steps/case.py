"""What the model is told of the mails of a run: the same at each turn, and so read once while its process
lives."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
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
from mailagent.workflows.steps.batch import Batch

HISTORY_MAILS = 20

# More than a worker usually answers at the same time. A case has some thousand letters, forty thousand at most.
KEPT_MOST = 512
KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Written:
    """A case as text, and of whose thread it was: erasing a customer changes its address and its token."""

    customer_email: str
    reply_token: str
    text: str
    kept_at: float

    def is_of(self, conversation: Conversation) -> bool:
        here = (conversation.customer_email, conversation.reply_token)
        return here == (self.customer_email, self.reply_token)


class KeptCases:
    """The cases of the runs that this process works on, for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: OrderedDict[tuple[object, ...], _Written] = OrderedDict()

    def find(self, batch: Batch, conversation: Conversation) -> str | None:
        """Return what was written of these mails, unless their customer was erased since."""
        found = self._cases.get(_key(batch))
        if found is None or time.monotonic() - found.kept_at > KEPT_SECONDS:
            return None
        return found.text if found.is_of(conversation) else None

    def keep(self, batch: Batch, conversation: Conversation, text: str) -> None:
        """Keep what was written; not of mails of which nobody knows when they were taken up."""
        if not batch.get("taken_at"):
            return
        now = time.monotonic()
        here = (conversation.customer_email, conversation.reply_token)
        with self._lock:
            self._cases[_key(batch)] = _Written(*here, text, now)
            self._cases.move_to_end(_key(batch))
        self.drop_old()

    def drop_old(self) -> None:
        """Drop what was kept for long enough: also of customers who were erased since."""
        now = time.monotonic()
        with self._lock:
            while self._cases and self._is_first_to_go(now):
                self._cases.popitem(last=False)

    def _is_first_to_go(self, now: float) -> bool:
        oldest = next(iter(self._cases.values()))
        return len(self._cases) > KEPT_MOST or now - oldest.kept_at > KEPT_SECONDS


def _key(batch: Batch) -> tuple[object, ...]:
    mails = tuple(batch["mail_ids"])
    return batch["conversation_id"], mails, batch["verified"], batch.get("taken_at")


kept = KeptCases()


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
        conversation, breaker = before_asking.load(
            connection, batch["conversation_id"], Provider.OPENAI
        )
        text = kept.find(batch, conversation)
        if text is None:
            text = _write(connection, conversation, batch)
            kept.keep(batch, conversation, text)
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
