"""`flask conversations …`: list conversations, show one with its mails and refunds."""

from __future__ import annotations

from typing import Any

import click
import sqlalchemy as sa

from mailagent import services
from mailagent.cli.printing import (
    AS_JSON,
    Commands,
    columns,
    instant,
    limit,
    one_line,
    print_json,
    print_records,
)
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.left_out import left_out
from mailagent.store.mail import conversations as store
from mailagent.store.mail import inbound, outbound
from mailagent.store.refunds import refunds as refund_rows

conversations = Commands("conversations", help="Conversations with customers.")


@conversations.command("list")
@AS_JSON
@limit("latest mail first")
def list_conversations(as_json: bool, limit: int) -> None:
    """List conversations, the latest mail first."""
    with services.current().database.snapshot() as connection:
        rows = store.list_recent(connection, limit)
    names = (
        "conversation_id customer_email subject status unanswered throttled opened_at last_mail_at"
        " handed_over_reason"
    )
    shown = "conversation_id customer_email status unanswered throttled last_mail_at subject"
    records = [columns(row, names) for row in rows]
    print_records(records, shown, "There are no conversations yet.", as_json=as_json)


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
    names = "conversation_id customer_email subject status handed_over_reason opened_at"
    events = [*_mails_in(connection, conversation), *_mails_out(connection, conversation)]
    refunds = refund_rows.list_of_conversation(connection, conversation.conversation_id)
    return {
        **columns(conversation, names),
        "mails": sorted(events, key=lambda event: event["at"]),
        "refunds": [
            {
                **columns(refund, "refund_id order_id status requested_at decided_by"),
                "amount": refund.amount.decimal(),
                "currency": refund.amount.currency,
            }
            for refund in refunds
        ],
    }


def _mails_in(connection: sa.Connection, conversation: Conversation) -> list[dict[str, Any]]:
    return [
        {
            "direction": "in",
            "at": mail.received_at,
            "from": mail.from_address,
            "text": mail.new_text,
            "left_out": left_out(mail.body, mail.new_text),
            **columns(mail, "mail_id subject kind identity status no_answer_reason"),
        }
        for mail in inbound.list_of_conversation(connection, conversation.conversation_id)
    ]


def _mails_out(connection: sa.Connection, conversation: Conversation) -> list[dict[str, Any]]:
    return [
        {
            "direction": "out",
            "mail_id": row.outbound_id,
            "at": row.created_at,
            "to": row.to_address,
            **columns(row, "subject text purpose status error"),
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
        click.echo(f"\n{instant(mail['at'])}  {other}  [{state}]  {one_line(mail['subject'])}")
        if mail.get("sent_again"):
            click.echo(f"    sent again: {mail['sent_again']}")
        for line in mail["text"].strip().splitlines():
            click.echo(f"    {one_line(line)}")
    for refund in record["refunds"]:
        click.echo(
            f"\nrefund {refund['refund_id']}: {refund['amount']} {refund['currency']} of order "
            f"{refund['order_id']}, {refund['status']}"
        )
