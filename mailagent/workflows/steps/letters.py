"""Our mails, from rows and templates to rows: each is written here, in the transaction of what it tells.

Who gets it comes from rows and settings, never from a mail's text or from the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.conversation import Conversation
from mailagent.domain.mail import (
    Door,
    InboundMail,
    OutboundMail,
    Purpose,
    ThreadHeaders,
    answer_headers,
    confirm_code,
    token_address,
)
from mailagent.domain.order import Order
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.domain.wording import MANAGER_REASONS, REFUND_REASONS, REFUND_STATES
from mailagent.store import approvals, cases, conversations, mailbox, orders, outbox, refunds
from mailagent.store.ids import new_id


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail of ours before it is rendered. `dedup_key` says what it is for: once, whatever replays."""

    purpose: Purpose
    template: str
    facts: Mapping[str, Any]
    dedup_key: str
    to_address: str = ""
    conversation_id: str | None = None
    refund_id: str | None = None
    headers: ThreadHeaders = ThreadHeaders("")
    reply_to: str | None = None


# In the team's letter: of each side the newest.
MAILS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Notice:
    """A few lines to people of the shop. `key` says what it is about: once to each of them."""

    key: str
    title: str
    lines: Sequence[str]


def write_reply(
    connection: sa.Connection, conversation: Conversation, mails: Sequence[InboundMail], text: str
) -> str:
    """Write the agent's answer. Whoever is not proven answers it to an address that proves them."""
    confirm = not all(mail.identity.proven for mail in mails)
    letter = Letter(
        Purpose.REPLY,
        "reply",
        {
            "text": text,
            "confirm_code": confirm_code(conversation.confirm_token) if confirm else None,
        },
        dedup_key=f"reply:{mails[-1].mail_id}",
    )
    return _to_customer(connection, letter, conversation, mails[-1], confirm)


def write_handed_over(
    connection: sa.Connection,
    conversation: Conversation,
    mails: Sequence[InboundMail],
    untrue: bool,
) -> str:
    """Tell the customer that a person takes over (`untrue`: instead of an answer we could not send)."""
    letter = Letter(
        Purpose.REPLY,
        "neutral_reply" if untrue else "handed_over",
        {},
        dedup_key=f"reply:{mails[-1].mail_id}",
    )
    return _to_customer(connection, letter, conversation, mails[-1])


def write_refund_outcome(connection: sa.Connection, refund: Refund, template: str) -> str:
    """Tell the customer how a refund ended, in the thread in which it was asked for."""
    order = orders.load(connection, refund.order_id)
    conversation = conversations.load(connection, refund.conversation_id)
    mail = mailbox.find(connection, refund.mail_id)
    letter = Letter(
        Purpose.RECEIPT if template == "receipt" else Purpose.REFUND_OUTCOME,
        template,
        {
            "order_id": refund.order_id,
            "items": cases.items_of(refund, order),
            "amount": refund.amount,
            "method": _methods(connection, refund, order),
            "reference": refund.gateway_reference,
            "paid_at": refund.paid_at,
            "requested_at": refund.requested_at,
            "part_paid": refund.part_paid,
            "expected_days": None,
            "note": None,
        },
        dedup_key=f"outcome:{refund.refund_id}",
        refund_id=refund.refund_id,
    )
    return _to_customer(connection, letter, conversation, mail)


def write_approval_request(connection: sa.Connection, refund: Refund, manager: str) -> str:
    """Ask one manager to decide, by a link that opens a page and decides nothing by itself."""
    live = services.current()
    approval = approvals.find_of_refund(connection, refund.refund_id)
    if approval is None:
        raise LookupError(f"refund {refund.refund_id} waits for a manager but has no approval")
    case = cases.load(connection, refund)
    facts = {
        "link_url": live.links.sign_approval(approval.approval_id, manager),
        "manager_email": manager,
        "order_id": case.order.order_id,
        "customer_name": case.order.customer_name,
        "customer_email": case.order.customer_email,
        "customer_since": case.customer_since,
        "amount": case.amount,
        "already_refunded": case.already_refunded,
        "paid": case.order.paid,
        "items": case.items,
        "reason": REFUND_REASONS[refund.reason],
        "policy_reasons": [MANAGER_REASONS.get(each, each) for each in refund.policy_reasons],
        "customer_text": case.customer_text,
        "attachments": case.attachments,
        "requested_at": refund.requested_at,
        "expires_at": approval.expires_at,
    }
    letter = Letter(
        Purpose.APPROVAL_REQUEST,
        "approval_request",
        facts,
        to_address=manager,
        dedup_key=f"approval_request:{approval.approval_id}:{manager}",
        refund_id=refund.refund_id,
    )
    return _record(connection, letter)


def write_to_team(
    connection: sa.Connection,
    conversation: Conversation,
    why: str,
    summary: str | None,
    dedup_key: str,
) -> list[str]:
    """Give a conversation to the support team, with the whole case."""
    live = services.current()
    latest = mailbox.list_latest(connection, conversation.conversation_id, MAILS_SHOWN)
    reply_to = token_address(Door.TEAM, conversation.team_token, live.shop.reply_domain)
    facts = {
        "customer_name": latest[-1].from_name if latest else "",
        "customer_email": conversation.customer_email,
        "answer_to": reply_to,
        "sender_verified": bool(latest) and all(mail.identity.proven for mail in latest),
        "conversation_id": conversation.conversation_id,
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
        _record(
            connection,
            Letter(
                Purpose.HAND_OVER,
                "hand_over",
                facts,
                to_address=address,
                dedup_key=f"{dedup_key}:{address}",
                conversation_id=conversation.conversation_id,
                reply_to=reply_to,
            ),
        )
        for address in live.shop.team_emails
    ]


def ask_next_manager(connection: sa.Connection, refund_id: str, after: str) -> str | None:
    """Ask the manager who comes after one that mail does not reach; None when there is none, or no
    need any more."""
    managers = services.current().shop.manager_emails
    refund = refunds.load(connection, refund_id)
    position = managers.index(after) + 1 if after in managers else len(managers)
    if refund.status is not RefundStatus.AWAITING_APPROVAL or position >= len(managers):
        return None
    return write_approval_request(connection, refund, managers[position])


def write_team_reply(
    connection: sa.Connection, conversation: Conversation, mail: InboundMail
) -> str:
    """Pass a team member's answer on to the customer: in the thread, from the support address, signed
    with their name."""
    asked = mailbox.list_latest(connection, conversation.conversation_id, 1)
    letter = Letter(
        Purpose.TEAM_REPLY,
        "team_reply",
        {"text": mail.new_text, "member": mail.from_name or mail.from_address.partition("@")[0]},
        dedup_key=f"team:{mail.mail_id}",
    )
    return _to_customer(connection, letter, conversation, asked[0] if asked else None)


def write_notice(
    connection: sa.Connection,
    notice: Notice,
    addresses: Sequence[str],
    conversation_id: str | None = None,
) -> list[str]:
    """Tell people of the shop that something needs them; one copy each, under `key:address`."""
    return [
        _record(
            connection,
            Letter(
                Purpose.NOTICE,
                "notice",
                {"title": notice.title, "lines": notice.lines},
                to_address=address,
                dedup_key=f"{notice.key}:{address}",
                conversation_id=conversation_id,
            ),
        )
        for address in addresses
    ]


def copy_notice(connection: sa.Connection, mail: OutboundMail, key: str, address: str) -> str:
    """Write the same notice to somebody else, under `key:address`."""
    live = services.current()
    outbound_id = new_id("outbound")
    copy = replace(
        mail,
        outbound_id=outbound_id,
        message_id=f"{outbound_id}@{live.shop.reply_domain}",
        to_address=address,
    )
    return outbox.record(connection, copy, f"{key}:{address}", live.now())


def _to_customer(
    connection: sa.Connection,
    letter: Letter,
    conversation: Conversation,
    mail: InboundMail | None,
    confirm: bool = False,
) -> str:
    """Record a letter to the customer of a conversation, in the thread of `mail`."""
    headers = answer_headers(mail) if mail else ThreadHeaders(f"Re: {conversation.subject}")
    door = Door.CONFIRM if confirm else Door.CASE
    token = conversation.confirm_token if confirm else conversation.reply_token
    addressed = replace(
        letter,
        facts={**letter.facts, "subject": headers.subject},
        to_address=conversation.customer_email,
        conversation_id=conversation.conversation_id,
        headers=headers,
        reply_to=token_address(door, token, services.current().shop.reply_domain),
    )
    return _record(connection, addressed)


def _record(connection: sa.Connection, letter: Letter) -> str:
    """Render a letter and record it as a mail to be sent; return the mail's id."""
    live = services.current()
    rendered = live.templates.render(letter.template, letter.facts)
    outbound_id = new_id("outbound")
    headers = letter.headers
    mail = OutboundMail(
        outbound_id=outbound_id,
        purpose=letter.purpose,
        to_address=letter.to_address,
        from_address=live.shop.support_address,
        subject=rendered.subject,
        text=rendered.text,
        html=rendered.html,
        message_id=f"{outbound_id}@{live.shop.reply_domain}",
        reply_to=letter.reply_to,
        in_reply_to=headers.in_reply_to,
        references=headers.references,
        conversation_id=letter.conversation_id,
        refund_id=letter.refund_id,
        # RFC 3834 section 5: an answer is "auto-replied", a mail of our own accord "auto-generated".
        # What a person wrote is neither.
        auto_submitted=_auto_submitted(letter),
    )
    return outbox.record(connection, mail, letter.dedup_key, live.now())


def _auto_submitted(letter: Letter) -> str:
    if letter.purpose is Purpose.TEAM_REPLY:
        return "no"
    return "auto-replied" if letter.headers.in_reply_to else "auto-generated"


def _state_of(connection: sa.Connection, refund: Refund) -> str:
    words = REFUND_STATES[refund.status]
    if refund.status is not RefundStatus.FAILED:
        return words
    details = cases.describe_payments(connection, refund) or refund.failure
    return f"{words}: {details}" if details else words


def _methods(connection: sa.Connection, refund: Refund, order: Order) -> str:
    rows = refunds.list_payments(connection, refund.refund_id)
    used = {row.payment_id for row in rows if row.state == "done"}
    methods = [payment.method for payment in order.payments if payment.payment_id in used]
    return ", ".join(dict.fromkeys(method.replace("_", " ") for method in methods))


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
            # Nothing came before the first one: what looks like a quotation there is the customer's.
            "text": mail.body if mail is first else mail.new_text,
            "attachments": [each.name for each in mail.attachments],
        }
        for mail in latest
    ]
    ours = [
        {
            "from_customer": False,
            "at": row.created_at,
            "subject": row.subject,
            "text": row.text,
            "attachments": [],
        }
        for row in outbox.list_to_customer(
            connection, conversation.conversation_id, conversation.customer_email, MAILS_SHOWN
        )
    ]
    return sorted([*theirs, *ours], key=lambda mail: mail["at"])
