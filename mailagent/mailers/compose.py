"""Composes a mail and writes it as an outbound row, in the caller's transaction.

The recipient comes from rows and settings, never from a mail's text or from the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.templates.engine import RenderedMail
from mailagent.domain.mail.draft import DraftReplies
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
from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.domain.money import Money
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.mailers.facts import Reader
from mailagent.mailers.values import Values
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, outbound
from mailagent.store.refunds import goodwill, offers


@dataclass(frozen=True, slots=True)
class MailContent:
    """A mail of ours before it is rendered. A mail with the same `dedup_key` is written once.

    `language` is the reader's, None if unknown; the shop's own people read English. `by_person`: a person wrote
    the mail, or pressed a button to send it. `sources`: the passages of the shop's knowledge that it quotes.
    `order_ids`: the orders whose record stands at its end. `composition`: the model's reply that it was written
    from. `remedy_id`: the remedy that it tells of. `written_from`: what `pack` returns, to write it again if it
    is sent late.
    """

    purpose: Purpose
    template: str
    values: Mapping[str, Any]
    dedup_key: str
    to_address: str = ""
    conversation_id: str | None = None
    refund_id: str | None = None
    headers: ThreadHeaders = ThreadHeaders("")
    reply_to: str | None = None
    language: str | None = "en"
    by_person: bool = False
    sources: tuple[str, ...] = ()
    files: tuple[OutgoingFile, ...] = ()
    order_ids: Sequence[str] = ()
    composition: str | None = None
    remedy_id: str | None = None
    written_from: str | None = None


def write_to_customer(
    reader: Reader,
    content: MailContent,
    mail: InboundMail | None,
    confirm: bool = False,
    language: str | None = None,
) -> str:
    """Record a mail to the customer of a conversation, in the thread of `mail`. Returns its id.

    `confirm`: an answer to the mail proves the mailbox. `language`: that of the mail, if it is known. If the
    sender is not proven, the subject is ours: a stranger may use us to write their words to a third person.
    """
    conversation = reader.conversation
    proven = mail is None or mail.identity.proven
    headers = answer_headers(mail) if mail else ThreadHeaders(f"Re: {conversation.subject}")
    written = mail.subject if mail else conversation.subject
    door = Door.CONFIRM if confirm else Door.CASE
    token = conversation.confirm_token if confirm else conversation.reply_token
    text = content.values.get("text")
    language = language or (find_language(text) if text else None) or conversation.language
    record = list_record(reader, content.order_ids, content.by_person)
    addressed = replace(
        content,
        # If the customer wrote none, the template has one in their language.
        values={
            **content.values,
            "subject": headers.subject if written and proven else None,
            "record": write_record(record, language),
        },
        to_address=conversation.customer_email,
        conversation_id=conversation.conversation_id,
        headers=headers,
        reply_to=token_address(door, token, services.current().shop.reply_domain),
        # Around a text of the agent or of a team member, the template is in the language of that text.
        language=language,
    )
    if content.purpose is Purpose.REPLY:
        now = services.current().now()
        conversations.record_answered(
            reader.connection, conversation.conversation_id, content.purpose, now
        )
    packed = replace(addressed, written_from=pack(reader, addressed))
    outbound_id = queue_mail(reader.connection, packed)
    _note_offers(reader, record, outbound_id)
    _note_discount(reader, content.values.get("goodwill"), outbound_id)
    return outbound_id


def _note_offers(reader: Reader, record: Sequence[Values], outbound_id: str) -> None:
    """Record which open offers the record in a mail tells: the customer can accept no other."""
    now = services.current().now()
    told = [each["order_id"] for each in record if each["offer"] and each["offer"]["is_open"]]
    for offer in reader.open_offers(told):
        details = {"outbound_id": outbound_id}
        audit.record(reader.connection, now, audit.AGENT, audit.OFFER_TOLD, offer.offer_id, details)


def _note_discount(reader: Reader, code: GoodwillCode | None, outbound_id: str) -> None:
    if code is not None:
        now, details = services.current().now(), {"outbound_id": outbound_id}
        audit.record(
            reader.connection, now, audit.AGENT, audit.GOODWILL_TOLD, code.order_id, details
        )


def list_record(reader: Reader, order_ids: Sequence[str], by_person: bool = False) -> list[Values]:
    """Return what the record of these orders of the customer tells. In draft mode only a mail that a person
    sends tells an offer or a discount for the first time."""
    live, orders = services.current(), reader.record(order_ids)
    if by_person or live.draft_replies is DraftReplies.NONE:
        return orders
    here = reader.connection, reader.conversation.customer_email, live.now()
    offered, given = offers.list_untold(*here), goodwill.list_untold(*here)
    for each in orders:
        if each["offer"] and each["order_id"] in offered:
            each["offer"] = {**each["offer"], "is_open": False}
        if each["order_id"] in given:
            each["discount"] = None
    return orders


def write_record(orders: Sequence[Values], language: str | None) -> str | None:
    """Return the record of orders, the text at the end of a mail; None if there is no order."""
    if not orders:
        return None
    live = services.current()
    return live.templates.fragment(
        "_record.txt", {"orders": orders}, live.shop.locale_for(language)
    )


def pack(reader: Reader, content: MailContent) -> str:
    """Return what a mail to a customer is written from, as JSON, so that it can be written again."""
    parts = {
        "template": content.template,
        "values": content.values,
        "language": content.language,
        "order_ids": content.order_ids,
        "composition": content.composition,
        "remedy_id": content.remedy_id,
        "mail_ids": reader.mail_ids,
        "proven": reader.proven,
    }
    return json.dumps(parts, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, datetime):
        return {"moment": value.isoformat()}
    return {each.name: getattr(value, each.name) for each in fields(value)}


def unpack(written_from: str) -> dict[str, Any]:
    """Return what a mail was written from. Money and times are values again, other records are dicts."""

    def restore(found: dict[str, Any]) -> Any:
        match found:
            case {"moment": str(at)}:
                return datetime.fromisoformat(at)
            case {"minor": int(minor), "currency": str(currency), **rest} if not rest:
                return Money(minor, currency)
        return found

    unpacked: dict[str, Any] = json.loads(written_from, object_hook=restore)
    return unpacked


def render(content: MailContent) -> RenderedMail:
    """Return a mail's subject, text and HTML, in its reader's language. Raises jinja2's TemplateError."""
    live = services.current()
    locale = live.shop.locale_for(content.language)
    return live.templates.render(content.template, content.values, locale)


def queue_mail(
    connection: sa.Connection, content: MailContent, rendered: RenderedMail | None = None
) -> str:
    """Record a mail to be sent, and return its id: that of the first mail, if there is one with its
    `dedup_key`. This enqueues no run: the caller sends the mail, or enqueues a delivery. Pass `rendered` if you
    have rendered the content."""
    live = services.current()
    rendered = rendered or render(content)
    outbound_id = new_id("outbound")
    headers = content.headers
    # RFC 3834 section 5; what a person wrote is "no".
    automatic = "auto-replied" if headers.in_reply_to else "auto-generated"
    if content.by_person:
        automatic = "no"
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
        auto_submitted=automatic,
        sources=content.sources,
        files=content.files,
        written_from=content.written_from,
    )
    return outbound.record(connection, mail, content.dedup_key, live.now())


# --- notices --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notice:
    """A few lines to the shop's own people; each gets a notice with the same `key` once. `tables`: each with
    its title and its rows, the first with the names of the columns."""

    key: str
    title: str
    lines: Sequence[str]
    button: tuple[str, str] | None = None  # its words, and the page that it opens
    link: tuple[str, str] | None = None  # likewise, to a second page
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]] = ()

    def facts(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "key"}


def write_notice(
    connection: sa.Connection,
    notice: Notice,
    addresses: Sequence[str],
    conversation_id: str | None = None,
    refund_id: str | None = None,
) -> list[str]:
    """Write a notice to each address, and return the ids of the mails; the caller enqueues their deliveries. A
    manager's reply to one with a `refund_id` is taken for a reply to the approval request."""
    return [
        queue_mail(
            connection,
            MailContent(
                Purpose.NOTICE,
                "notice",
                notice.facts(),
                to_address=address,
                dedup_key=f"{notice.key}:{address}",
                conversation_id=conversation_id,
                refund_id=refund_id,
            ),
        )
        for address in addresses
    ]


def copy_notice(connection: sa.Connection, mail: OutboundMail, key: str, address: str) -> str:
    """Write the same notice to another address."""
    live = services.current()
    outbound_id = new_id("outbound")
    copy = replace(
        mail,
        outbound_id=outbound_id,
        message_id=f"{outbound_id}@{live.shop.reply_domain}",
        to_address=address,
    )
    return outbound.record(connection, copy, f"{key}:{address}", live.now())
