"""Mail to the support team and to operators: hand-offs and login links."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters import gateways
from mailagent.domain.mail.conversation import Conversation, HandOverReason
from mailagent.domain.mail.message import Door, InboundMail, Purpose, are_proven, token_address
from mailagent.domain.mail.redaction import inert_address
from mailagent.domain.refunds.labels import REFUND_STATES
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.mailers.compose import MailContent, queue_mail
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, inbound, outbound, outgoing_files
from mailagent.store.refunds import refund_payments, refunds

# The newest mails of each side.
MAILS_SHOWN = 20


def write_to_team(
    connection: sa.Connection,
    conversation: Conversation,
    why: str,
    summary: str | None,
    dedup_key: str,
    readers: Sequence[str] | None = None,
) -> list[str]:
    """Write a case, a conversation with its mails and refunds, to each member of the support team, or to
    `readers` only. Returns the ids of the mails. The conversation's status stays: the caller hands it over."""
    live = services.current()
    latest = inbound.list_latest(connection, conversation.conversation_id, MAILS_SHOWN)
    reply_to = token_address(Door.TEAM, conversation.team_token, live.shop.reply_domain)
    values = {
        "customer_name": latest[-1].from_name if latest else "",
        "customer_email": inert_address(conversation.customer_email),
        "answer_to": reply_to,
        "sender_verified": are_proven(latest),
        "conversation_id": conversation.conversation_id,
        "page": f"{live.shop.public_url}/ops/conversations/{conversation.conversation_id}",
        "subject": conversation.subject,
        "why": why,
        "summary": summary,
        "mails": _thread(connection, conversation, latest),
        "refunds": [
            {
                "order_id": refund.order_id,
                "amount": refund.amount,
                "status": _state_of(connection, refund),
                "requested_at": refund.requested_at,
            }
            for refund in refunds.list_of_conversation(connection, conversation.conversation_id)
        ],
    }
    return [
        queue_mail(
            connection,
            MailContent(
                Purpose.HAND_OVER,
                "hand_over",
                values,
                to_address=address,
                dedup_key=f"{dedup_key}:{address}",
                conversation_id=conversation.conversation_id,
                reply_to=reply_to,
            ),
        )
        for address in readers or live.shop.team_emails
    ]


def hand_to_team(
    connection: sa.Connection,
    conversation: Conversation,
    why: HandOverReason,
    key: str | None,
    actor: str = audit.CLOCK,
) -> None:
    """Hand a conversation over to the team, and mail them the case, once for each `key`. With `key` None this
    writes no mail: the caller tells them of several conversations in one notice. `actor`: who reported the
    reason; by default the clock."""
    live, conversation_id = services.current(), conversation.conversation_id
    conversations.hand_over(connection, conversation_id, why.value, live.now())
    audit.record(connection, live.now(), actor, "conversation handed over", conversation_id)
    if key is not None:
        written = write_to_team(connection, conversation, why.value, None, key)
        live.workflow_client.queue.enqueue_deliveries(connection, written)


def _state_of(connection: sa.Connection, refund: Refund) -> str:
    words = REFUND_STATES[refund.status]
    if refund.status is not RefundStatus.FAILED:
        return words
    details = refund_payments.describe(connection, refund) or refund.failure
    if not details:
        return words
    # None is recorded while it is asked.
    names = refund.gateway or services.current().gateway.name
    return f"{words}: {gateways.explain_codes(details, names)}"


def _thread(
    connection: sa.Connection, conversation: Conversation, latest: Sequence[InboundMail]
) -> list[dict[str, Any]]:
    """Return the newest mails of a thread, ours and the customer's, oldest first."""
    first = min(latest, key=lambda mail: mail.received_at) if len(latest) < MAILS_SHOWN else None
    theirs = [
        {
            "from_customer": True,
            "at": mail.received_at,
            "subject": mail.subject,
            # In the first mail, what looks like a quotation is the customer's own text.
            "text": mail.body if mail is first else mail.new_text,
            "attachments": [each.name for each in mail.attachments],
        }
        for mail in latest
    ]
    answers = outbound.list_to_customer(
        connection, conversation.conversation_id, conversation.customer_email, MAILS_SHOWN
    )
    files = outgoing_files.list_of(connection, [row.outbound_id for row in answers])
    ours = [
        {
            "from_customer": False,
            "at": row.created_at,
            "subject": row.subject,
            "text": row.text,
            "attachments": [each.name for each in files.get(row.outbound_id, ())],
        }
        for row in answers
    ]
    return sorted([*theirs, *ours], key=lambda mail: mail["at"])


def write_login_link(connection: sa.Connection, email: str, url: str, lives: timedelta) -> str:
    """Write a mail with a login link that works for `lives`, and return its id."""
    content = MailContent(
        Purpose.LOGIN,
        "login_link",
        {"link_url": url, "minutes": int(lives.total_seconds() // 60)},
        to_address=email,
        dedup_key=new_id("login"),
    )
    return queue_mail(connection, content)
