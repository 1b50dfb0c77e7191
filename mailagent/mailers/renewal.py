"""Writes a mail to a customer again if it waited before it is sent, so that its facts and record are
current."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from jinja2 import TemplateError

from mailagent import services
from mailagent.agent.reply.composition import parse
from mailagent.domain.mail.message import OutboundMail, Purpose
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.mailers.compose import list_record, unpack, write_record
from mailagent.mailers.fact import Fact, sentence
from mailagent.mailers.facts import Reader
from mailagent.mailers.letter import record_credit_offers, write_letter
from mailagent.mailers.to_customers import fact_of_offer, fact_of_remedy, values_of_promise
from mailagent.store import audit
from mailagent.store.mail import conversations, outbound
from mailagent.store.refunds import offers, orders, refunds, remedies, settlements

logger = logging.getLogger(__name__)

# A mail that is sent sooner is sent as it was written, unless it is a receipt, whose money may have come back,
# or about a remedy, whose money may have been paid.
FRESH_FOR = timedelta(seconds=10)


def renew_if_late(connection: sa.Connection, mail: OutboundMail) -> OutboundMail:
    """Return a mail that is about to be sent, written again if it has waited, is a receipt or about a remedy.

    An attempt that may have gone out clears `written_from`: after that the mail stays as it is.
    """
    now = services.current().now()
    is_late = mail.created_at is not None and now - mail.created_at >= FRESH_FOR
    is_due = is_late or mail.purpose in (Purpose.RECEIPT, Purpose.REMEDY)
    if not is_due or not mail.written_from or mail.conversation_id is None:
        return mail
    try:
        renewed = _renew(connection, mail, mail.conversation_id, unpack(mail.written_from))
    except (
        TemplateError,
        KeyError,
        TypeError,
        ValueError,
    ):  # values of another release, or a template of the shop's
        logger.exception(
            "mail=%s event=not_renewed: it is sent as it was written", mail.outbound_id
        )
        return mail
    if renewed.text != mail.text:
        outbound.rewrite(connection, renewed)
        audit.record(connection, now, audit.CLOCK, audit.WRITTEN_AGAIN, mail.outbound_id)
    return renewed


def _renew(
    connection: sa.Connection, mail: OutboundMail, conversation_id: str, known: Mapping[str, Any]
) -> OutboundMail:
    live = services.current()
    conversation = conversations.load(connection, conversation_id)
    reader = Reader(connection, conversation, known["mail_ids"], known["proven"])
    locale, sources = live.shop.locale_for(known["language"]), mail.sources
    template, values = _tell_again(reader, mail, known, locale)
    letter = None
    if known["composition"]:
        letter = write_letter(reader, parse(known["composition"]))
        # Facts that are no longer on record are left out.
        values["text"] = letter.text or sentence(Fact("not_verified", {}), locale)
        sources = letter.sources
    code = values.get("goodwill")
    if code and code["expires_at"] <= live.now():
        values["goodwill"] = None
    values["record"] = write_record(list_record(reader, known["order_ids"]), known["language"])
    rendered = live.templates.render(template, values, locale)
    if letter is not None:
        record_credit_offers(reader, letter, mail.outbound_id, is_again=True)
    return replace(mail, text=rendered.text, html=rendered.html, sources=sources)


def _tell_again(
    reader: Reader, mail: OutboundMail, known: Mapping[str, Any], locale: str
) -> tuple[str, dict[str, Any]]:
    """Return the template of a mail and its values, with what became of the remedy, offer, promise or refunds
    that it tells of. What does not stand any more needs the template of a remedy, which only tells a
    state."""
    connection, template, values = reader.connection, known["template"], dict(known["values"])
    remedy_id = known.get("remedy_id")
    remedy = remedies.find(connection, remedy_id) if remedy_id else None
    told: list[Fact | None] = [fact_of_remedy(remedy)] if remedy else []
    if template == "refund_offered" and mail.refund_id:
        offer = offers.find_instead(connection, mail.refund_id)
        offered = offer and fact_of_offer(
            connection, offer, orders.load(connection, offer.order_id)
        )
        told = [offered] if offered and not offered.values["is_open"] else []
    elif template == "refund_promised" and mail.refund_id:
        promised = settlements.list_promised(connection, mail.refund_id)
        values |= values_of_promise(promised) if promised else {}
        told = [] if promised else [reader.find(f"refund/{values['order_id']}")]
    elif template in ("receipt", "receipts") and not _are_paid(reader, mail):
        told = [reader.find(f"refund/{each}") for each in dict.fromkeys(known["order_ids"])]
    text = "\n\n".join(sentence(each, locale) for each in told if each)
    if not text:
        return template, values
    note = values.get("note") if remedy else None
    return "remedy", values | {"text": text, "note": note}


def _are_paid(reader: Reader, receipt: OutboundMail) -> bool:
    """Return whether no refund of a receipt has failed since, because its money came back."""
    here = reader.connection, reader.conversation_id, receipt.outbound_id
    refund_ids = [receipt.refund_id or "", *refunds.list_sharing_receipt(*here)]
    told = refunds.list_by_id(reader.connection, refund_ids)
    return all(each.status is RefundStatus.PAID for each in told)
