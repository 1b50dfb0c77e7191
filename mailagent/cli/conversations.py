"""`flask conversations …`: list conversations, show one with its mails and refunds."""

from __future__ import annotations

from typing import Any

import click
import sqlalchemy as sa

from mailagent import services
from mailagent.cli.printing import (
    AS_JSON,
    LIMIT,
    Commands,
    instant,
    one_line,
    print_json,
    print_records,
)
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.message import left_out
from mailagent.store.mail import conversations as store
from mailagent.store.mail import inbound, outbound
from mailagent.store.refunds import refunds as refund_rows

conversations = Commands("conversations", help="Conversations with customers.")


@conversations.command("list")
@AS_JSON
@click.option(
    "--limit", type=LIMIT, default=50, show_default=True, help="How many, latest mail first."
)
def list_conversations(as_json: bool, limit: int) -> None:
    """List conversations, the latest mail first."""
    with services.current().database.snapshot() as connection:
        rows = store.list_recent(connection, limit)
    records = [
        {
            "conversation_id": row.conversation_id,
            "customer_email": row.customer_email,
            "subject": row.subject,
            "status": row.status,
            "unanswered": row.unanswered,
            "throttled": row.throttled,
            "opened_at": instant(row.opened_at),
            "last_mail_at": instant(row.last_mail_at),
            "handed_over_reason": row.handed_over_reason,
        }
        for row in rows
    ]
    columns = (
        "conversation_id",
        "customer_email",
        "status",
        "unanswered",
        "throttled",
        "last_mail_at",
        "subject",
    )
    print_records(records, columns, "There are no conversations yet.", as_json=as_json)


@conversations.command("show")
@click.argument("conversation_id")
@AS_JSON
def show_conversation(conversation_id: str, as_json: bool) -> None:
    """Show a conversation: all mails, oldest first, and its refunds."""
    with services.current().database.snapshot() as connection:
        conversation = store.find(connection, conversation_id)
        if conversation is None:
            raise click.ClickException(f"there is no conversation {conversation_id}")
        record = _record(connection, conversation)
    if as_json:
        print_json(record)
    else:
        _print(record)


def _record(connection: sa.Connection, conversation: Conversation) -> dict[str, Any]:
    events = [*_mails_in(connection, conversation), *_mails_out(connection, conversation)]
    return {
        "conversation_id": conversation.conversation_id,
        "customer_email": conversation.customer_email,
        "subject": conversation.subject,
        "status": conversation.status.value,
        "handed_over_reason": conversation.handed_over_reason,
        "opened_at": instant(conversation.opened_at),
        "mails": sorted(events, key=lambda event: event["at"]),
        "refunds": [
            {
                "refund_id": refund.refund_id,
                "order_id": refund.order_id,
                "amount": refund.amount.decimal(),
                "currency": refund.amount.currency,
                "status": refund.status.value,
                "requested_at": instant(refund.requested_at),
                "decided_by": refund.decided_by,
            }
            for refund in refund_rows.list_of_conversation(connection, conversation.conversation_id)
        ],
    }


def _mails_in(connection: sa.Connection, conversation: Conversation) -> list[dict[str, Any]]:
    return [
        {
            "direction": "in",
            "mail_id": mail.mail_id,
            "at": instant(mail.received_at),
            "from": mail.from_address,
            "subject": mail.subject,
            "text": mail.new_text,
            "left_out": left_out(mail.body, mail.new_text),
            "kind": mail.kind.value,
            "identity": mail.identity.value,
            "status": mail.status.value,
            "no_answer_reason": mail.no_answer_reason,
        }
        for mail in inbound.list_of_conversation(connection, conversation.conversation_id)
    ]


def _mails_out(connection: sa.Connection, conversation: Conversation) -> list[dict[str, Any]]:
    return [
        {
            "direction": "out",
            "mail_id": row.outbound_id,
            "at": instant(row.created_at),
            "to": row.to_address,
            "subject": row.subject,
            "text": row.text,
            "purpose": row.purpose,
            "status": row.status,
            "error": row.error,
            "sent_again": row.sent_again_why,
        }
        for row in outbound.list_of_conversation(connection, conversation.conversation_id)
    ]


def _print(record: dict[str, Any]) -> None:
    click.echo(f"{record['conversation_id']}  {record['customer_email']}  {record['status']}")
    if record["handed_over_reason"]:
        click.echo(f"handed over: {record['handed_over_reason']}")
    for mail in record["mails"]:
        other = f"from {mail['from']}" if mail["direction"] == "in" else f"to {mail['to']}"
        state = mail.get("no_answer_reason") or mail["status"]
        click.echo(f"\n{mail['at']}  {other}  [{state}]  {one_line(mail['subject'])}")
        if mail.get("sent_again"):
            click.echo(f"    sent again: {mail['sent_again']}")
        for line in mail["text"].strip().splitlines():
            click.echo(f"    {one_line(line)}")
    for refund in record["refunds"]:
        click.echo(
            f"\nrefund {refund['refund_id']}: {refund['amount']} {refund['currency']} of order "
            f"{refund['order_id']}, {refund['status']}"
        )
