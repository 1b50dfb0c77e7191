"""The agent's answer: a reply leaves only if it agrees with the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypedDict

import sqlalchemy as sa

from mailagent import letters, services
from mailagent.agent import loop, reply_check
from mailagent.agent.reply_facts import Given, ReplyFacts, gather_facts
from mailagent.domain.conversation import Conversation
from mailagent.domain.goodwill import GoodwillCode
from mailagent.domain.mail import InboundMail, MailStatus
from mailagent.domain.order import Order
from mailagent.domain.refund import (
    Refund,
)
from mailagent.store import audit, conversations, goodwill, mailbox, orders, outside, refunds
from mailagent.workflows.steps.batch import Batch
from mailagent.workflows.steps.model import HISTORY_MAILS, history_of
from mailagent.workflows.steps.recording import step

ORDERS_CHECKED = 1000


class Written(TypedDict):
    """What became of a reply: `written` with the mails to send, or `untrue` with what to tell the model."""

    kind: str
    outbound_ids: list[str]
    items: list[dict[str, Any]]
    spent: dict[str, int]


@step
def write_reply(batch: Batch, text: str, spent: dict[str, int]) -> Written:
    """Write the model's reply as a mail to be sent, if it agrees with the rows."""
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, batch["conversation_id"])
        mails = mailbox.list_by_id(connection, batch["mail_ids"])
        if any(mail.status is not MailStatus.UNANSWERED for mail in mails):
            return Written(kind="written", outbound_ids=answers_of(mails), items=[], spent=spent)
        facts = _reply_facts(connection, conversation, batch)
        thread = mailbox.list_latest(connection, conversation.conversation_id, HISTORY_MAILS)
        words = "\n".join(f"{mail.subject}\n{mail.body}" for mail in (*thread, *mails))
        problems = reply_check.find_untrue(text, facts, words)
        if problems:
            used = loop.Spent(**spent).plus_unusable_reply()
            items = [loop.correction_item(problems)]
            return Written(kind="untrue", outbound_ids=[], items=items, spent=asdict(used))
        outbound_id = letters.write_reply(connection, conversation, mails, text)
        mailbox.answer(connection, batch["mail_ids"], outbound_id)
        conversations.count_model_use(
            connection, conversation.conversation_id, spent["model_turns"], spent["tokens"]
        )
        audit.record(connection, live.now(), audit.AGENT, "mail answered", mails[-1].mail_id)
    return Written(kind="written", outbound_ids=[outbound_id], items=[], spent=spent)


def answers_of(mails: Sequence[InboundMail]) -> list[str]:
    """Return the mails of ours that answer these already: written before a crash, perhaps not sent."""
    return list(dict.fromkeys(mail.answered_by for mail in mails if mail.answered_by))


def _reply_facts(connection: sa.Connection, conversation: Conversation, batch: Batch) -> ReplyFacts:
    """Return what may be said to this customer: nothing about any order to one who is not proven."""
    live = services.current()
    bought: tuple[Order, ...] = ()
    refunded: tuple[Refund, ...] = ()
    given: tuple[GoodwillCode, ...] = ()
    if batch["verified"]:
        address = conversation.customer_email
        bought, _ = orders.list_of_customer(connection, address, ORDERS_CHECKED)
        refunded = refunds.list_of_customer(connection, address)
        codes = goodwill.list_of_customer(connection, address)
        given = tuple(code for code in codes if code.is_good(live.now()))
    elsewhere = outside.given_back_by_order(connection, [order.order_id for order in bought])
    return gather_facts(
        bought,
        refunded,
        live.policy,
        [past.at for past in history_of(connection, conversation, ())]
        + [mail.received_at for mail in mailbox.list_by_id(connection, batch["mail_ids"])],
        live.shop.support_address,
        live.shop.public_url,
        Given(given, elsewhere),
    )
