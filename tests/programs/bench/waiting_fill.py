"""Refunds that wait for a manager, made in bulk by the app's own functions: each with its order, its
conversation and mail, its approval, and the wake-up that starts its run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.domain.mail.message import Identity, MailKind, MailStatus
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
from tests.cast import big_order
from tests.programs.bench.flows import new_order

_AT_ONCE = 100
_EXPIRY = timedelta(days=7)


def fill_waiting(database_url: str, count: int) -> None:
    """Record so many refunds that wait, and enqueue each; a worker then takes them."""
    database = open_database(database_url)
    workflow_client = WorkflowClient(database.engine)
    for first in range(0, count, _AT_ONCE):
        with database.transaction() as connection:
            for _ in range(min(_AT_ONCE, count - first)):
                _record(connection, workflow_client, datetime.now(UTC))
    workflow_client.close()
    database.close()


def _record(connection: sa.Connection, workflow_client: WorkflowClient, now: datetime) -> None:
    order = new_order(big_order)
    order_import.save(connection, order, now)
    conversation_id = conversations.open_new(
        connection, order.customer_email, "My order", now
    ).conversation_id
    refund = _refund(order, conversation_id, _record_mail(connection, order, conversation_id, now))
    refunds.record(
        connection,
        refund,
        refund.refund_id,
        {},
        {line.line_no: line.item_id for line in order.lines},
    )
    approvals.request(connection, refund.refund_id, now, now + _EXPIRY)
    about = RunAbout(conversation_id, order.order_id, refund.refund_id, order.customer_email)
    workflow_client.queue.enqueue_refund(connection, refund.refund_id, None, about=about)


def _record_mail(
    connection: sa.Connection, order: Order, conversation_id: str, now: datetime
) -> str:
    mail_id, text = new_id("mail"), "The desk arrived broken. I want my money back."
    values = {
        "mail_id": mail_id,
        "dedup_key": mail_id,
        "conversation_id": conversation_id,
        "from_address": order.customer_email,
        "from_name": order.customer_name,
        "envelope_to": [],
        "subject": "My order",
        "message_id": f"{mail_id}@example.com",
        "in_reply_to": [],
        "mail_references": [],
        "received_at": now,
        "body": text,
        "new_text": text,
        "attachments": [],
        "flags": [],
        "identity": Identity.DKIM.value,
        "kind": MailKind.CUSTOMER.value,
        "status": MailStatus.NO_ANSWER.value,
        "no_answer_reason": "made for a benchmark",
    }
    connection.execute(schema.inbound_mails.insert().values(values))
    return mail_id


def _refund(order: Order, conversation_id: str, mail_id: str) -> Refund:
    wanted = [WantedItem(item_id=line.item_id, quantity=None) for line in order.lines]
    lines = price_lines(order, wanted, [])
    return Refund(
        refund_id=new_id("refund"),
        order_id=order.order_id,
        conversation_id=conversation_id,
        mail_id=mail_id,
        amount=order.paid,
        lines=lines,
        item_ids=tuple(line.item_id for line in order.lines),
        reason=RefundReason.DAMAGED,
        status=RefundStatus.AWAITING_APPROVAL,
        requested_at=datetime.now(UTC),
        policy_reasons=("above_limit",),
    )
