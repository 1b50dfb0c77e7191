"""SendGrid Inbound Parse: the bytes of one POST become one `ParsedMail`, whatever they are.

Raw mode (field `email`) and parsed mode (fields `headers`, `text`, `html`, …). The signature is
checked before this room is entered; storing is for the one who calls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from mailagent.adapters.address_list import Mailbox, parse_addresses
from mailagent.adapters.charset import decode
from mailagent.adapters.form_data import FormData, parse_form
from mailagent.adapters.mail_header import (
    Headers,
    decode_words,
    first,
    parse_block,
    parse_date,
    parse_ids,
    parse_message_id,
)
from mailagent.adapters.mail_text import (
    HTML_MAX_BYTES,
    TEXT_MAX_BYTES,
    MailText,
    Segment,
    compose,
    decode_html,
    make_attachment,
    read_text,
)
from mailagent.adapters.mime import parse_mime
from mailagent.adapters.multipart import Span
from mailagent.adapters.organisational_domain import organisational_domain
from mailagent.adapters.reply_text import new_text
from mailagent.domain.card_number import mask_card_numbers
from mailagent.domain.machine import classify
from mailagent.domain.mail import Identity, MailKind, ParsedMail
from mailagent.domain.sender import decide_identity, normalise_address

SUBJECT_MAX_LENGTH = 998
NAME_MAX_LENGTH = 300
BODY_MAX_LENGTH = 200_000
RECIPIENTS_MAX = 100

_SMALL_FIELD_BYTES = 20_000
_HEADERS_FIELD_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ShopFacts:
    """The shop's own addresses, by which mail of ours that comes back is recognised.

    `other_addresses`: further addresses or whole domains (`@brand.example`) that customers write to.
    """

    support_address: str
    reply_domain: str
    other_addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Envelope:
    to: tuple[str, ...]
    sender: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Message:
    """What both modes have in common once read."""

    headers: Headers
    text: MailText
    dedup_key: str


def parse_request(content_type: str, body: bytes, facts: ShopFacts) -> ParsedMail:
    """Return the mail in one Inbound Parse request. Never raises, whatever the bytes.

    A request that is no form, was cut off or has no envelope gives kind MALFORMED with the reason;
    what could be read of it is there for people to see.
    """
    form = parse_form(content_type, body)
    if form is None:
        return _malformed(body, "the request is not multipart/form-data")
    envelope = _parse_envelope(form)
    message = _read_message(form)
    froms = _from_mailboxes(message.headers)
    author = froms[0] if froms else Mailbox("", "")
    subject = decode_words(first(message.headers, "subject"))
    kind, reason = classify(
        message.headers, envelope.sender, author.address, subject, _own_addresses(facts)
    )
    problem = envelope.problem or (None if form.closed else "the request was cut off")
    if problem:
        kind, reason = MailKind.MALFORMED, problem
    text = mask_card_numbers(message.text.body[:BODY_MAX_LENGTH])
    return ParsedMail(
        from_address=author.address,
        from_name=mask_card_numbers(author.name)[:NAME_MAX_LENGTH],
        envelope_from=envelope.sender,
        envelope_to=envelope.to,
        subject=mask_card_numbers(subject)[:SUBJECT_MAX_LENGTH],
        message_id=parse_message_id(message.headers),
        in_reply_to=parse_ids(message.headers, "in-reply-to"),
        references=parse_ids(message.headers, "references"),
        sent_at=parse_date(first(message.headers, "date")),
        body=text,
        new_text=new_text(text, subject=subject),
        identity=_identity(form, froms, envelope),
        kind=kind,
        # The whole mail may still come; it must not be taken for this piece of it.
        dedup_key=_digest(b"malformed", body) if problem else message.dedup_key,
        kind_reason=reason,
        attachments=message.text.attachments,
        flags=message.text.flags,
    )


def _malformed(body: bytes, reason: str) -> ParsedMail:
    return ParsedMail(
        from_address="",
        from_name="",
        envelope_from=None,
        envelope_to=(),
        subject="",
        message_id=None,
        in_reply_to=(),
        references=(),
        sent_at=None,
        body="",
        new_text="",
        identity=Identity.NONE,
        kind=MailKind.MALFORMED,
        dedup_key=_digest(b"malformed", body),
        kind_reason=reason,
    )


def _parse_envelope(form: FormData) -> _Envelope:
    if "envelope" not in form.fields:
        return _Envelope((), None, "the request has no envelope")
    found = _json_object(form.value("envelope", _SMALL_FIELD_BYTES))
    to, sender = found.get("to"), found.get("from")
    if not isinstance(to, list) or not all(isinstance(one, str) for one in to):
        return _Envelope((), None, "the envelope has no list of recipients")
    recipients = tuple(normalise_address(one) or "" for one in to[:RECIPIENTS_MAX])
    sender = (normalise_address(sender) or "") if isinstance(sender, str) else None
    return _Envelope(tuple(one for one in recipients if one), sender)


def _json_object(data: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(decode(data, None))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_message(form: FormData) -> _Message:
    if (span := form.fields.get("email")) is not None:
        return _read_raw(form.body, span)
    return _read_parsed(form)


def _read_raw(source: bytes, span: Span) -> _Message:
    mail = parse_mime(source, span)
    body = memoryview(mail.source)[mail.body.start : mail.body.end]
    whole = memoryview(mail.source)[span.start : span.end]
    return _Message(mail.headers, read_text(mail), dedup_key(mail.headers, body, whole))


def _read_parsed(form: FormData) -> _Message:
    headers, _ = parse_block(form.body, form.fields.get("headers", Span(0, 0)))
    charsets = _json_object(form.value("charsets", _SMALL_FIELD_BYTES))
    segment = Segment(
        decode(form.value("text", TEXT_MAX_BYTES), _charset(charsets, "text")),
        decode_html(form.value("html", HTML_MAX_BYTES), _charset(charsets, "html")),
    )
    body, flags = compose([segment])
    if not headers:
        names = ("from", "to", "cc", "subject")
        headers = {
            name: (decode(form.value(name, _SMALL_FIELD_BYTES), _charset(charsets, name)),)
            for name in names
            if name in form.fields
        }
    attachments = tuple(
        make_attachment(file.name, file.content_type, file.span.end - file.span.start)
        for file in form.files
    )
    digest = _digest(form.value("text", TEXT_MAX_BYTES), form.value("html", HTML_MAX_BYTES))
    return _Message(headers, MailText(body, attachments, flags), digest)


def _charset(charsets: Mapping[str, object], field: str) -> str | None:
    name = charsets.get(field)
    return name if isinstance(name, str) else None


def _from_mailboxes(headers: Headers) -> list[Mailbox]:
    return [mailbox for value in headers.get("from", ()) for mailbox in parse_addresses(value)]


def _own_addresses(facts: ShopFacts) -> tuple[str, ...]:
    return (normalise_address(facts.support_address) or facts.support_address,)


def _identity(form: FormData, froms: list[Mailbox], envelope: _Envelope) -> Identity:
    if form.repeated or not all(mailbox.plain for mailbox in froms):
        return Identity.NONE
    return decide_identity(
        [mailbox.address for mailbox in froms],
        envelope.sender,
        decode(form.value("spf", 100), None),
        decode(form.value("dkim", _SMALL_FIELD_BYTES), None),
        organisational_domain,
    )


def dedup_key(headers: Headers, body: bytes | memoryview, whole: bytes | memoryview) -> str:
    """Return the key that is equal for two deliveries of one mail."""
    message_id = parse_message_id(headers)
    if message_id is None:
        return _digest(whole)
    froms = ",".join(mailbox.address for mailbox in _from_mailboxes(headers))
    return _digest(message_id.encode(), froms.encode(), body)


def _digest(*pieces: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()
