"""Our mails, from rows and templates to rows: each is written here, in the transaction of what it tells.

Who gets it comes from rows and settings, never from a mail's text or from the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent.languages import find_language
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
from mailagent.domain.money import Money
from mailagent.domain.order import Order
from mailagent.domain.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.domain.wording import MANAGER_REASONS, REFUND_REASONS, REFUND_STATES
from mailagent.store import (
    approvals,
    cases,
    conversations,
    goodwill,
    mailbox,
    orders,
    outbox,
    refunds,
)
from mailagent.store.ids import new_id


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail of ours before it is rendered. `dedup_key` says what it is for: once, whatever replays.

    `language` is that of whoever reads it, None if unknown. Our own people read English.
    """

    purpose: Purpose
    template: str
    facts: Mapping[str, Any]
    dedup_key: str
    to_address: str = ""
    conversation_id: str | None = None
    refund_id: str | None = None
    headers: ThreadHeaders = ThreadHeaders("")
    reply_to: str | None = None
    language: str | None = "en"


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
            "goodwill": _goodwill_facts(connection, mails),
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
        {"goodwill": _goodwill_facts(connection, mails)},
        dedup_key=f"reply:{mails[-1].mail_id}",
    )
    return _to_customer(connection, letter, conversation, mails[-1])


def _goodwill_facts(
    connection: sa.Connection, mails: Sequence[InboundMail]
) -> dict[str, Any] | None:
    """Return the discount that was given in answer to these mails, for the block below the answer."""
    given = goodwill.find_of_mails(connection, [mail.mail_id for mail in mails])
    if given is None:
        return None
    return {
        "percent": given.percent,
        "code": given.code,
        "expires_at": given.expires_at,
        "order_id": given.order_id,
    }


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
            "shipping": cases.shipping_of(refund),
            "asked": _asked(refund),
            "payments": _payments(connection, refund, order),
            "paid_at": refund.paid_at,
            "requested_at": refund.requested_at,
            "part_paid": refund.part_paid,
            "note": _note(connection, refund),
        },
        dedup_key=f"outcome:{refund.refund_id}",
        refund_id=refund.refund_id,
    )
    return _to_customer(connection, letter, conversation, mail)


def write_refund_returned(connection: sa.Connection, refund: Refund) -> str:
    """Correct what we told the customer: money that we said was refunded came back to the shop.

    Raises ValueError for a refund of which nothing came back that we had told them of.
    """
    untrue = refunds.list_told_before_return(connection, refund.refund_id)
    if refund.returned is None or not untrue:
        raise ValueError(f"nothing that was told of refund {refund.refund_id} came back")
    conversation = conversations.load(connection, refund.conversation_id)
    letter = Letter(
        Purpose.REFUND_OUTCOME,
        "refund_returned",
        {
            "order_id": refund.order_id,
            "amount": refund.amount,
            "returned": Money(sum(row.amount_minor for row in untrue), refund.amount.currency),
            "reference": ", ".join(row.reference for row in untrue),
        },
        # Of two payments the second may come back later: that is told, too.
        dedup_key=f"returned:{refund.refund_id}:{refund.returned.minor}",
        refund_id=refund.refund_id,
    )
    mail = mailbox.find(connection, refund.mail_id)
    return _to_customer(connection, letter, conversation, mail)


def ask_manager(connection: sa.Connection, refund: Refund) -> str:
    """Ask whoever is next to decide on a refund that waits: the first manager, or, where one has
    approved and the policy wants four eyes, the first one who is not that one."""
    managers = services.current().shop.manager_emails
    first = approvals.find_first_of_refund(connection, refund.refund_id)
    if first is None:
        return write_approval_request(connection, refund, managers[0])
    others = _besides(first.decided_by, managers)
    if not others:
        raise LookupError(
            f"refund {refund.refund_id} needs a second manager beside {first.decided_by}, and there"
            " is none: add one to MANAGER_EMAILS, then replay this run"
        )
    return write_approval_request(connection, refund, others[0])


def _besides(decided_by: str, managers: Sequence[str]) -> Sequence[str]:
    """Return the managers who are somebody else than the one who has decided."""
    return [each for each in managers if person_of(each) != person_of(decided_by)]


def write_approval_request(connection: sa.Connection, refund: Refund, manager: str) -> str:
    """Ask one manager to decide, by a link that opens a page and decides nothing by itself. Where one
    has approved, this asks for the second approval, and says who gave the first."""
    live = services.current()
    approval = approvals.find_of_refund(connection, refund.refund_id)
    if approval is None:
        raise LookupError(f"refund {refund.refund_id} waits for a manager but has no approval")
    case = cases.load(connection, refund)
    first = approvals.find_decision(connection, approval.approval_id)
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
        "shipping": case.shipping,
        "reason": REFUND_REASONS[refund.reason],
        "policy_reasons": [MANAGER_REASONS.get(each, each) for each in refund.policy_reasons],
        "customer_text": case.customer_text,
        "attachments": case.attachments,
        "requested_at": refund.requested_at,
        "expires_at": approval.expires_at,
        "first_approval": _approval_facts(first, refund) if first else None,
    }
    # Whoever was asked first and did not answer may be asked once more, for the second approval.
    question = "countersign_request" if first else "approval_request"
    letter = Letter(
        Purpose.APPROVAL_REQUEST,
        "approval_request",
        facts,
        to_address=manager,
        dedup_key=f"{question}:{approval.approval_id}:{manager}",
        refund_id=refund.refund_id,
    )
    return _record(connection, letter)


def _approval_facts(first: approvals.RecordedDecision, refund: Refund) -> dict[str, Any]:
    return {
        "decided_by": first.decided_by,
        "decided_at": first.decided_at,
        "amount": refund.amount,  # what the first manager left of it, if that was less
        "note": first.note,
    }


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
    """Ask the manager who comes after one that mail does not reach, but never whoever has approved
    already; None when there is none, or no need any more."""
    managers = services.current().shop.manager_emails
    refund = refunds.load(connection, refund_id)
    if refund.status is not RefundStatus.AWAITING_APPROVAL or after not in managers:
        return None
    first = approvals.find_first_of_refund(connection, refund_id)
    following = managers[managers.index(after) + 1 :]
    left = _besides(first.decided_by, following) if first else following
    return write_approval_request(connection, refund, left[0]) if left else None


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
    written = mail.subject if mail else conversation.subject
    door = Door.CONFIRM if confirm else Door.CASE
    token = conversation.confirm_token if confirm else conversation.reply_token
    addressed = replace(
        letter,
        # Without one of the customer's, the template has words in their language.
        facts={**letter.facts, "subject": headers.subject if written else None},
        to_address=conversation.customer_email,
        conversation_id=conversation.conversation_id,
        headers=headers,
        reply_to=token_address(door, token, services.current().shop.reply_domain),
        language=_language(letter, conversation),
    )
    return _record(connection, addressed)


def _language(letter: Letter, conversation: Conversation) -> str | None:
    """Return the language of a mail to the customer: theirs, but our words around somebody else's (the
    agent's, a team member's) are in the language of those."""
    words = letter.facts.get("text")
    return (find_language(words) if words else None) or conversation.language


def _record(connection: sa.Connection, letter: Letter) -> str:
    """Render a letter and record it as a mail to be sent; return the mail's id."""
    live = services.current()
    locale = live.shop.locale_for(letter.language)
    rendered = live.templates.render(letter.template, letter.facts, locale)
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


def _payments(connection: sa.Connection, refund: Refund, order: Order) -> list[dict[str, Any]]:
    """Return what went back to which payment, for those that gave their part."""
    policy = services.current().policy
    methods = {payment.payment_id: payment.method for payment in order.payments}
    return [
        {
            "method": methods.get(row.payment_id, row.payment_id),
            "amount": Money(row.amount_minor, refund.amount.currency),
            "reference": row.reference,
            "expected_days": policy.days_until_arrival(methods.get(row.payment_id, "")),
        }
        for row in refunds.list_payments(connection, refund.refund_id)
        if row.state == "done" and row.returned_at is None
    ]


def _asked(refund: Refund) -> Money | None:
    """Return what the items come to, if less was approved."""
    return refund.worth if refund.worth.minor > refund.amount.minor else None


def _note(connection: sa.Connection, refund: Refund) -> str | None:
    """Return what managers wrote to the customer: of two who approved both, of a rejection only whoever
    rejected, whom somebody else's kind words would contradict."""
    first = approvals.find_first_of_refund(connection, refund.refund_id)
    both = [first.note if first and first.approves and refund.four_eyes else None, refund.note]
    notes = [refund.note] if refund.status is RefundStatus.REJECTED else both
    return "\n\n".join(note for note in notes if note) or None


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
