"""Rows made in bulk: refunds that wait for a manager, and threads that are long already."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.demo.fakes.webhooks import WebhookKey
from mailagent.domain.mail.message import Door, Identity, MailKind, MailStatus, token_address
from mailagent.domain.operations.run_about import RunAbout
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import (
    Refund,
    RefundReason,
    RefundStatus,
    WantedItem,
    price_lines,
)
from mailagent.engine.client import WorkflowClient
from mailagent.store import schema
from mailagent.store.database import open_database
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations
from mailagent.store.refunds import approvals, order_import, refunds
from tests.cast import SUPPORT, big_order
from tests.programs.bench.clients import Post
from tests.programs.bench.flows import Flow, letter_about, new_order, sign

_AT_ONCE = 100
_EXPIRY = timedelta(days=7)
_WISH = "The desk arrived broken. I want my money back."
# As long as mails of customers are in the median.
_TEXT = (
    "Thank you for the answer. I have looked at what came and compared it with what I ordered, and there"
    " is something that I do not understand yet. On the label there is another number than in your mail."
    " Could you look whether that is the same parcel, and tell me what I should do next with it?"
)


def fill_waiting(database_url: str, count: int) -> None:
    """Record so many refunds that wait, by the app's own functions, and enqueue each for a worker."""
    database = open_database(database_url)
    workflow_client = WorkflowClient(database.engine)
    for first in range(0, count, _AT_ONCE):
        with database.transaction() as connection:
            for _ in range(min(_AT_ONCE, count - first)):
                _record_refund(connection, workflow_client, datetime.now(UTC))
    workflow_client.close()
    database.close()


def _record_refund(
    connection: sa.Connection, workflow_client: WorkflowClient, now: datetime
) -> None:
    order = new_order(big_order)
    order_import.save(connection, order, now)
    thread = conversations.open_new(connection, order.customer_email, "My order", now)
    mail = _mail(thread.conversation_id, order, now, _WISH) | {
        "status": MailStatus.NO_ANSWER.value,
        "no_answer_reason": "made for a benchmark",
    }
    connection.execute(schema.inbound_mails.insert().values(mail))
    wanted = [WantedItem(item_id=line.item_id, quantity=None) for line in order.lines]
    refund = Refund(
        refund_id=new_id("refund"),
        order_id=order.order_id,
        conversation_id=thread.conversation_id,
        mail_id=mail["mail_id"],
        amount=order.paid,
        lines=price_lines(order, wanted, []),
        item_ids=tuple(line.item_id for line in order.lines),
        reason=RefundReason.DAMAGED,
        status=RefundStatus.AWAITING_APPROVAL,
        requested_at=now,
        policy_reasons=("above_limit",),
    )
    refunds.record(connection, refund, refund.refund_id, {})
    approvals.request(connection, refund.refund_id, now, now + _EXPIRY)
    about = RunAbout(thread.conversation_id, order.order_id, refund.refund_id, order.customer_email)
    workflow_client.queue.enqueue_refund(connection, refund.refund_id, None, about=about)


def prepare_threads(
    flow: Flow, count: int, length: int, database_url: str, key: WebhookKey
) -> list[Post]:
    """Record `count` conversations of `length` mails each, half of them ours, and return one more mail
    into each of them."""
    database = open_database(database_url)
    posts = []
    for _ in range(count):
        about, now = new_order(), datetime.now(UTC)
        with database.transaction() as connection:
            order_import.save(connection, about, now)
            thread = conversations.open_new(connection, about.customer_email, "My order", now)
            _record_thread(connection, thread.conversation_id, about, length)
        to = token_address(Door.CASE, thread.reply_token, SUPPORT.partition("@")[2])
        posts.append(sign(letter_about(flow, about, to=to), key))
    database.close()
    return posts


def _record_thread(
    connection: sa.Connection, conversation_id: str, about: Order, length: int
) -> None:
    mails, answers = [], []
    for number in range(length // 2):
        # The latest came a day ago: nothing here is a flood.
        at = datetime.now(UTC) - timedelta(hours=24 + 5 * (length // 2 - number))
        answer = _answer(conversation_id, about, at + timedelta(minutes=1))
        mail = _mail(conversation_id, about, at, _TEXT)
        answered = {"status": MailStatus.ANSWERED.value, "answered_by": answer["outbound_id"]}
        answers.append(answer)
        mails.append(mail | answered)
    # A mail that was answered refers to its answer.
    connection.execute(schema.outbound_mails.insert(), answers)
    connection.execute(schema.inbound_mails.insert(), mails)


def _answer(conversation_id: str, about: Order, at: datetime) -> dict[str, Any]:
    outbound_id = new_id("outbound")
    return {
        "outbound_id": outbound_id,
        "dedup_key": f"reply:{outbound_id}",
        "conversation_id": conversation_id,
        "purpose": "reply",
        "to_address": about.customer_email,
        "from_address": SUPPORT,
        "subject": "Re: My order",
        "text": _TEXT,
        "message_id": f"{outbound_id}@shop.example",
        "mail_references": [],
        "auto_submitted": "auto-replied",
        "status": "sent",
        "created_at": at,
        "sent_at": at,
    }


def _mail(conversation_id: str, about: Order, at: datetime, text: str) -> dict[str, Any]:
    mail_id = new_id("mail")
    return {
        "mail_id": mail_id,
        "dedup_key": mail_id,
        "conversation_id": conversation_id,
        "from_address": about.customer_email,
        "from_name": about.customer_name,
        "envelope_to": [],
        "subject": "My order",
        "message_id": f"{mail_id}@example.com",
        "in_reply_to": [],
        "mail_references": [],
        "received_at": at,
        "body": text,
        "new_text": text,
        "attachments": [],
        "flags": [],
        "identity": Identity.DKIM.value,
        "kind": MailKind.CUSTOMER.value,
    }
