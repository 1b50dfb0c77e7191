"""Parses a request of SendGrid's Inbound Parse into a `ParsedMail`, and reads attachments of a stored request.

Nothing here raises. The caller has verified the signature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mailagent.adapters.mime.address_list import Mailbox
from mailagent.adapters.mime.attachment import (
    ATTACHMENTS_MAX,
    DOWNLOAD_MAX_BYTES,
    AttachmentBytes,
    make_attachment,
    may_be_downloaded,
)
from mailagent.adapters.mime.bounce import read_bounce, tells_failure
from mailagent.adapters.mime.dmarc import Evidence, find_form_author, judge_author
from mailagent.adapters.mime.headers import (
    VALUE_MAX_LENGTH,
    Headers,
    clean,
    decode_words,
    first,
    parse_date,
    parse_ids,
    parse_message_id,
)
from mailagent.adapters.mime.mail_text import describe_file, list_files
from mailagent.adapters.mime.parser import decoded_body, parse_mime
from mailagent.adapters.mime.reply_text import new_text
from mailagent.adapters.sendgrid.inbound_message import (
    SMALL_FIELD_MAX_BYTES,
    FormData,
    Message,
    decoded_field,
    key_at_door,
    parse_form,
    read_json,
    read_message,
    request_key,
)
from mailagent.domain.mail.authentication import ADDRESS_MAX_LENGTH, ascii_domain, normalise_address
from mailagent.domain.mail.auto_response import NULL_RETURN_PATH, Signs, classify
from mailagent.domain.mail.message import (
    AddressedToken,
    MailKind,
    ParsedMail,
    find_token,
    shows_nothing,
    token_address,
)
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.shop import ShopAddresses

SUBJECT_MAX_LENGTH = 998  # one line, RFC 5322 section 2.1.1
NAME_MAX_LENGTH = 300
BODY_MAX_LENGTH = 200_000
RECIPIENTS_MAX = 100

_CARD_NUMBER_ROOM = 96  # mask so far beyond the cut: half a card number is not recognised
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_CONTROLS_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class _Envelope:
    to: tuple[str, ...] = ()
    sender: str | None = None
    problem: str | None = None


def parse_request(
    content_type: str, body: bytes, shop: ShopAddresses, received_at: datetime
) -> ParsedMail:
    """Return the mail of an Inbound Parse request. Never raises.

    A request that is not a form, is incomplete or has no envelope gives kind MALFORMED with the reason, and
    whatever could be read of it.
    """
    form = parse_form(content_type, body)
    if form is None or not form.fields:
        why = "is not multipart/form-data" if form is None else "has no fields"
        return _unreadable(body, f"the request {why}")
    envelope, message = _parse_envelope(form), read_message(form)
    headers, sender = message.headers, _sender(message.authors)
    token = find_token(envelope.to, shop.reply_domain)
    by_form = None if token else find_form_author(headers, sender, shop.form_senders)
    author = by_form or sender
    subject = _subject(form, headers)
    kind, reason = classify(_signs(message, envelope, author, subject, shop))
    problem = envelope.problem or (None if form.closed else "the request was cut off")
    key = key_at_door(message.dedup_key, token.token) if token else message.dedup_key
    text, body_flags = _body(message)
    evidence = _evidence(form, envelope, message, token, shop, received_at, by_form is not None)
    judged = judge_author(message.authors, headers, evidence, shop.customer_addresses)
    return ParsedMail(
        kind=MailKind.MALFORMED if problem else kind,
        kind_reason=problem or reason,
        # The same mail may come again, complete, and must not count as a duplicate of this incomplete one.
        dedup_key=request_key(body) if problem else key,
        from_address=author.address,
        from_name=_one_line(author.name)[:NAME_MAX_LENGTH],
        envelope_from=envelope.sender,
        envelope_to=envelope.to,
        subject=subject,
        message_id=parse_message_id(headers),
        in_reply_to=parse_ids(headers, "in-reply-to"),
        references=parse_ids(headers, "references"),
        sent_at=parse_date(first(headers, "date")),
        body=text,
        new_text="" if shows_nothing(text) else new_text(text, subject=subject)[:BODY_MAX_LENGTH],
        identity=judged.identity,
        identity_unsigned=judged.identity_unsigned,
        known_by_date=judged.known_by_date,
        attachments=message.text.attachments,
        flags=(*message.text.flags, *body_flags, *judged.flags),
        # Out-of-office replies have a null return path, too.
        bounce=read_bounce(headers, message.report, text, is_notice=reason != NULL_RETURN_PATH)
        if kind is MailKind.BOUNCE
        else None,
    )


def _sender(authors: Sequence[Mailbox]) -> Mailbox:
    readable = (mailbox for mailbox in authors if mailbox.address)
    return next(readable, authors[0] if authors else Mailbox("", ""))


def _unreadable(body: bytes, reason: str) -> ParsedMail:
    return ParsedMail(kind=MailKind.MALFORMED, kind_reason=reason, dedup_key=request_key(body))


def _parse_envelope(form: FormData) -> _Envelope:
    if "envelope" not in form.fields:
        return _Envelope(problem="the request has no envelope")
    found = read_json(form.value("envelope", SMALL_FIELD_MAX_BYTES))
    to, sender = found.get("to"), found.get("from")
    if not isinstance(to, list) or not all(isinstance(one, str) for one in to):
        return _Envelope(problem="the envelope has no list of recipients")
    recipients = tuple(_envelope_address(one) for one in to[:RECIPIENTS_MAX] if one.strip())
    return _Envelope(
        recipients,
        _envelope_address(sender) if isinstance(sender, str) else None,
        None if recipients else "the envelope names no recipient",
    )


def _envelope_address(text: str) -> str:
    """Return a normalised address of the envelope; an invalid one, unchanged."""
    bare = text.strip().removeprefix("<").removesuffix(">")
    return normalise_address(bare) or _one_line(bare)[:ADDRESS_MAX_LENGTH]


def _signs(
    message: Message, envelope: _Envelope, author: Mailbox, subject: str, shop: ShopAddresses
) -> Signs:
    return Signs(
        headers=message.headers,
        envelope_from=envelope.sender,
        from_address=author.address,
        from_name=author.name or decode_words(first(message.headers, "from")),
        subject=subject,
        part_types=message.part_types,
        own_addresses=(normalise_address(shop.support_address) or shop.support_address,),
        reply_domain=ascii_domain(shop.reply_domain) or shop.reply_domain,
        tells_failure=tells_failure(message.text.body),
    )


def _subject(form: FormData, headers: Headers) -> str:
    # In parsed mode SendGrid has decoded the subject and names its charset. In raw mode the mail's own header
    # is more exact.
    decoded = "" if "email" in form.fields else decoded_field(form, "subject")
    subject = decoded or decode_words(first(headers, "subject"))
    return _one_line(subject or decoded_field(form, "subject"))[:SUBJECT_MAX_LENGTH]


def _one_line(text: str) -> str:
    return mask_card_numbers(" ".join(_CONTROLS.sub(" ", clean(text[:VALUE_MAX_LENGTH])).split()))


def _body(message: Message) -> tuple[str, tuple[str, ...]]:
    whole = _CONTROLS_IN_TEXT.sub("", message.text.body)
    text = mask_card_numbers(whole[: BODY_MAX_LENGTH + _CARD_NUMBER_ROOM])
    masked = text != whole[: BODY_MAX_LENGTH + _CARD_NUMBER_ROOM]
    cut = len(whole) > BODY_MAX_LENGTH and "body_cut" not in message.text.flags
    flags = ("card_number",) * masked + ("body_cut",) * cut
    return text[:BODY_MAX_LENGTH], flags


def _evidence(
    form: FormData,
    envelope: _Envelope,
    message: Message,
    token: AddressedToken | None,
    shop: ShopAddresses,
    received_at: datetime,
    by_form: bool,
) -> Evidence:
    at = token_address(token.door, token.token, shop.reply_domain) if token else None
    return Evidence(
        spf=decoded_field(form, "spf"),
        dkim=decoded_field(form, "dkim"),
        envelope_from=envelope.sender,
        envelope_to=envelope.to,
        reply_address=normalise_address(at) if at else None,
        tampered=form.repeated or {"email", "headers"} <= form.fields.keys(),
        header_flaw=message.header_flaw,
        received_at=received_at,
        by_form=by_form,
    )


# --- attachment bytes -----------------------------------------------------------------------------


def find_attachment(content_type: str, body: bytes, number: int) -> AttachmentBytes | None:
    """Return the file of `ParsedMail.attachments[number]`. Never raises.

    Return None if there is no such file, or if it is larger than DOWNLOAD_MAX_BYTES.
    """
    form = parse_form(content_type, body)
    if form is None or not form.fields or not 0 <= number < ATTACHMENTS_MAX:
        return None
    file, data = None, b""
    if (span := form.fields.get("email")) is not None:
        parts = list_files(parse_mime(form.body, span))
        if number < len(parts) and may_be_downloaded(file := describe_file(parts[number])):
            data = decoded_body(parts[number])
    elif number < len(form.files):
        posted = form.files[number]
        file = make_attachment(posted.name, posted.content_type, len(posted.span))
        data = posted.span.bytes_of(form.body, DOWNLOAD_MAX_BYTES)
    return AttachmentBytes(file.name, data) if file and may_be_downloaded(file) else None
