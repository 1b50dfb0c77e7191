"""Composes a mail and writes it as an outbound row, in the caller's transaction.

The recipient comes from rows and settings, never from a mail's text or from the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.templates.engine import RenderedMail
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.message import (
    Door,
    InboundMail,
    OutboundMail,
    Purpose,
    ThreadHeaders,
    answer_headers,
    token_address,
)
from mailagent.store.ids import new_id
from mailagent.store.mail import outbound


@dataclass(frozen=True, slots=True)
class MailContent:
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
    by_person: bool = False  # somebody pressed a button to send it, or wrote it


def write_to_customer(
    connection: sa.Connection,
    content: MailContent,
    conversation: Conversation,
    mail: InboundMail | None,
    confirm: bool = False,
) -> str:
    """Record a mail to the customer of a conversation, in the thread of `mail`."""
    headers = answer_headers(mail) if mail else ThreadHeaders(f"Re: {conversation.subject}")
    written = mail.subject if mail else conversation.subject
    door = Door.CONFIRM if confirm else Door.CASE
    token = conversation.confirm_token if confirm else conversation.reply_token
    addressed = replace(
        content,
        # Without one of the customer's, the template has words in their language.
        facts={**content.facts, "subject": headers.subject if written else None},
        to_address=conversation.customer_email,
        conversation_id=conversation.conversation_id,
        headers=headers,
        reply_to=token_address(door, token, services.current().shop.reply_domain),
        language=_language(content, conversation),
    )
    return queue_mail(connection, addressed)


def _language(content: MailContent, conversation: Conversation) -> str | None:
    """Return the language of a mail to the customer: theirs, but our words around somebody else's (the
    agent's, a team member's) are in the language of those."""
    words = content.facts.get("text")
    return (find_language(words) if words else None) or conversation.language


def render(content: MailContent) -> RenderedMail:
    """Render the mail."""
    live = services.current()
    locale = live.shop.locale_for(content.language)
    return live.templates.render(content.template, content.facts, locale)


def queue_mail(
    connection: sa.Connection, content: MailContent, rendered: RenderedMail | None = None
) -> str:
    """Render the content and record it as a mail to be sent; return the mail's id. `rendered`: what `render`
    has made of it already."""
    live = services.current()
    rendered = rendered or render(content)
    outbound_id = new_id("outbound")
    headers = content.headers
    mail = OutboundMail(
        outbound_id=outbound_id,
        purpose=content.purpose,
        to_address=content.to_address,
        from_address=live.shop.support_address,
        subject=rendered.subject,
        text=rendered.text,
        html=rendered.html,
        message_id=f"{outbound_id}@{live.shop.reply_domain}",
        reply_to=content.reply_to,
        in_reply_to=headers.in_reply_to,
        references=headers.references,
        conversation_id=content.conversation_id,
        refund_id=content.refund_id,
        # RFC 3834 section 5: an answer is "auto-replied", a mail of our own accord "auto-generated".
        # What a person wrote is neither.
        auto_submitted=_auto_submitted(content),
    )
    return outbound.record(connection, mail, content.dedup_key, live.now())


def _auto_submitted(content: MailContent) -> str:
    if content.by_person:
        return "no"
    return "auto-replied" if content.headers.in_reply_to else "auto-generated"


# --- notices --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notice:
    """A few lines to people of the shop. `key` says what it is about: once to each of them."""

    key: str
    title: str
    lines: Sequence[str]


def write_notice(
    connection: sa.Connection,
    notice: Notice,
    addresses: Sequence[str],
    conversation_id: str | None = None,
) -> list[str]:
    """Tell people of the shop that something needs them; one copy each, under `key:address`."""
    return [
        queue_mail(
            connection,
            MailContent(
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
    return outbound.record(connection, copy, f"{key}:{address}", live.now())
