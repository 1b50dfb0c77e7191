"""Threads that are long already: conversations of customers and the shop, and one more mail for each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.demo.fakes.webhooks import WebhookKey
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.message import (
    Door,
    Identity,
    MailKind,
    MailStatus,
    OutboundStatus,
    Purpose,
    token_address,
)
from mailagent.domain.refunds.order import Order
from mailagent.store import schema
from mailagent.store.database import open_database
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations
from mailagent.store.refunds import order_import
from tests.cast import SUPPORT
from tests.programs.bench.flows import Flow, letter_about, new_order, sign
from tests.programs.bench.posting import Post

# As long as mails of customers are in the middle.
_TEXT = (
    "Thank you for the answer. I have looked at what came and compared it with what I ordered, and there"
    " is something that I do not understand yet. On the label there is another number than in your mail."
    " Could you look whether that is the same parcel, and tell me what I should do next with it?"
)


def prepare_threads(
    flow: Flow, count: int, length: int, database_url: str, key: WebhookKey
) -> list[Post]:
    """Record `count` conversations of `length` mails each, half of them ours, and return one more mail
    into each of them."""
    database = open_database(database_url)
    posts = []
    for _ in range(count):
        about = new_order()
        with database.transaction() as connection:
            now = datetime.now(UTC)
            order_import.save(connection, about, now)
            thread = conversations.open_new(connection, about.customer_email, "My order", now)
            _fill(connection, thread, about, length)
        domain = SUPPORT.partition("@")[2]
        to = token_address(Door.CASE, thread.reply_token, domain)
        posts.append(sign(letter_about(flow, about, to=to), key))
    database.close()
    return posts


def _fill(connection: sa.Connection, thread: Conversation, about: Order, length: int) -> None:
    # The answer first: a mail that was answered names it.
    answers, mails = [], []
    for hours in _hours(length):
        at = datetime.now(UTC) - timedelta(hours=hours)
        answer = _answer(thread, about, at + timedelta(minutes=1))
        answers.append(answer)
        mails.append(_mail(thread, about, at, answer["outbound_id"]))
    connection.execute(schema.outbound_mails.insert(), answers)
    connection.execute(schema.inbound_mails.insert(), mails)


def _hours(length: int) -> Iterator[int]:
    """Return how many hours ago each of a customer's mails came: none so lately that it is a flood."""
    pairs = length // 2
    return (24 + 5 * (pairs - number) for number in range(pairs))


def _answer(thread: Conversation, about: Order, at: datetime) -> dict[str, Any]:
    outbound_id = new_id("outbound")
    return {
        "outbound_id": outbound_id,
        "dedup_key": f"reply:{outbound_id}",
        "conversation_id": thread.conversation_id,
        "purpose": Purpose.REPLY.value,
        "to_address": about.customer_email,
        "from_address": SUPPORT,
        "subject": "Re: My order",
        "text": _TEXT,
        "message_id": f"{outbound_id}@shop.example",
        "mail_references": [],
        "auto_submitted": "auto-replied",
        "status": OutboundStatus.SENT.value,
        "created_at": at,
        "sent_at": at,
    }


def _mail(thread: Conversation, about: Order, at: datetime, answered_by: str) -> dict[str, Any]:
    mail_id = new_id("mail")
    return {
        "mail_id": mail_id,
        "dedup_key": mail_id,
        "conversation_id": thread.conversation_id,
        "from_address": about.customer_email,
        "from_name": about.customer_name,
        "envelope_to": [],
        "subject": "My order",
        "message_id": f"{mail_id}@example.com",
        "in_reply_to": [],
        "mail_references": [],
        "received_at": at,
        "body": _TEXT,
        "new_text": _TEXT,
        "attachments": [],
        "flags": [],
        "identity": Identity.DKIM.value,
        "kind": MailKind.CUSTOMER.value,
        "status": MailStatus.ANSWERED.value,
        "answered_by": answered_by,
    }
