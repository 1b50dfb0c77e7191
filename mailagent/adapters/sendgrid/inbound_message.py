"""The mail inside an Inbound Parse form (multipart/form-data), in raw mode and in parsed mode.

Raw mode has the whole mail in the field `email`. Parsed mode has the fields `headers`, `text` and `html`, each
in a charset of its own, and files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mailagent.adapters.mime.address_list import Mailbox, parse_addresses
from mailagent.adapters.mime.attachment import ATTACHMENTS_MAX, make_attachment
from mailagent.adapters.mime.bounce import (
    REPORT_MAX_BYTES,
    RETURNED_TYPES,
    STATUS_TYPES,
    ReportPart,
)
from mailagent.adapters.mime.headers import (
    ODD_HEADERS,
    Headers,
    decode,
    first,
    parse_block,
    parse_message_id,
    parse_parameters,
)
from mailagent.adapters.mime.mail_text import (
    HTML_MAX_BYTES,
    TEXT_MAX_BYTES,
    MailText,
    Segment,
    compose,
    decode_html,
    list_shown,
    read_text,
)
from mailagent.adapters.mime.multipart import BOUNDARY_MAX_LENGTH, Span, split_parts
from mailagent.adapters.mime.parser import decoded_body, parse_mime
from mailagent.domain.mail.auto_response import CALENDAR_REPLY

SMALL_FIELD_MAX_BYTES = 20_000

_RECEIVED = re.compile(rb"(?:\r?\n)*Received:[^\n]*\n(?:[ \t][^\n]*\n)*+", re.IGNORECASE)
# A reply to an invitation (RFC 5546 section 3.2). Mail programs send it automatically.
_CALENDAR_REPLY = re.compile(rb"^METHOD:(?:REPLY|COUNTER)\s*$", re.IGNORECASE | re.MULTILINE)
_CALENDAR_MAX_BYTES = 20_000
_REPORT_TYPES = STATUS_TYPES | RETURNED_TYPES
_ANY_RECEIVED = re.compile(rb"^Received:[^\n]*\n?", re.IGNORECASE | re.MULTILINE)

Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Message:
    """A mail, from either mode. `authors`: all mailboxes of all From fields. `part_types`: the media types of
    its parts, and `CALENDAR_REPLY` if a part replies to an invitation."""

    headers: Headers
    header_flaw: str | None
    authors: list[Mailbox]
    text: MailText
    part_types: frozenset[str]
    report: tuple[ReportPart, ...]
    dedup_key: str


def read_message(form: FormData) -> Message:
    """Return the mail in a form; an empty one if there is none. Never raises."""
    if (span := form.fields.get("email")) is not None:
        return _read_raw(form.body, span)
    return _read_parsed(form)


def from_mailboxes(headers: Headers) -> list[Mailbox]:
    """Return all mailboxes of all From fields."""
    return [mailbox for value in headers.get("from", ()) for mailbox in parse_addresses(value)]


def dedup_key(
    headers: Headers, authors: Iterable[Mailbox], body: Iterable[Bytes], source: Iterable[Bytes]
) -> str:
    """Return a key that is the same for all deliveries of one mail, and different for two mails.

    SendGrid gives deliveries no id, and repeats them with another Received line. The key covers Message-ID,
    author, visible fields and body, so that a forged mail with another mail's Message-ID does not suppress
    that mail. Without a Message-ID it covers all of `source`, which lacks the first Received line.
    """
    message_id = parse_message_id(headers)
    seen = [
        ",".join(mailbox.address for mailbox in authors),
        *(first(headers, name) for name in ("subject", "date", "to", "content-type")),
    ]
    if message_id is None:
        return _digest("\n".join(["source", *seen]).encode("utf-8", "replace"), source)
    return _digest("\n".join([message_id, *seen]).encode("utf-8", "replace"), body)


def key_at_door(key: str, door: str) -> str:
    """Return the key of a mail that came to a reply address.

    A mail to the support address and to a reply address is delivered twice. Only the reply address names the
    conversation or proves a mailbox, so the two must not count as duplicates.
    """
    return _digest(f"{key}\n{door}".encode(), [])


def request_key(body: bytes) -> str:
    """Return the key of a request without a readable mail."""
    return _digest(b"request", [body])


def _digest(begin: bytes, pieces: Iterable[Bytes]) -> str:
    digest = hashlib.sha256(begin)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def read_json(data: bytes) -> Mapping[str, object]:
    """Return a field's JSON object; an empty one if it holds anything else."""
    try:
        found = json.loads(decode(data, None))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_raw(source: bytes, span: Span) -> Message:
    mail = parse_mime(source, span)
    received = _RECEIVED.match(source, span.start, span.end)
    whole = Span(received.end() if received else span.start, span.end).view_of(source)
    authors = from_mailboxes(mail.headers)
    key = dedup_key(mail.headers, authors, [mail.body.view_of(mail.source)], [whole])
    parts = mail.walk()
    return Message(
        headers=mail.headers,
        header_flaw=mail.flaw,
        authors=authors,
        text=read_text(mail),
        part_types=_part_types(
            (part.media_type, decoded_body(part, _calendar_bytes(part.media_type)))
            for part in parts
        ),
        report=tuple(
            ReportPart(part.media_type, decoded_body(part, REPORT_MAX_BYTES))
            for part in parts
            if part.media_type in _REPORT_TYPES
        ),
        dedup_key=key,
    )


def _part_types(parts: Iterable[tuple[str, bytes]]) -> frozenset[str]:
    """Return the media types of parts, which are given with their first bytes."""
    types: set[str] = set()
    for media_type, data in parts:
        types.add(media_type)
        if media_type == "text/calendar" and _CALENDAR_REPLY.search(data):
            types.add(CALENDAR_REPLY)
    return frozenset(types)


def _calendar_bytes(media_type: str) -> int:
    return _CALENDAR_MAX_BYTES if media_type == "text/calendar" else 0


def _read_parsed(form: FormData) -> Message:
    span = form.fields.get("headers", Span(0, 0))
    headers, end, flaw = parse_block(form.body, span)
    if end < span.end:
        flaw = flaw or ODD_HEADERS  # the field must hold nothing but headers
    if not headers:
        headers = {
            name: (decode(form.value(name, SMALL_FIELD_MAX_BYTES), _charset(form, name)),)
            for name in ("from", "to", "cc", "subject")
            if name in form.fields
        }
    segment = Segment(
        decode(form.value("text", TEXT_MAX_BYTES), _charset(form, "text")),
        decode_html(form.value("html", HTML_MAX_BYTES), _charset(form, "html")),
    )
    body, flags = compose([segment])
    fields = read_json(form.value("content-ids", SMALL_FIELD_MAX_BYTES))
    inline = [fields[each] for each in list_shown([segment]) if each in fields]
    attachments = tuple(
        replace(
            make_attachment(file.name, file.content_type, len(file.span)),
            is_inline=file.field in inline,
        )
        for file in form.files[:ATTACHMENTS_MAX]
    )
    spans = [form.fields[name] for name in ("text", "html") if name in form.fields]
    spans += [file.span for file in form.files]
    content = [one.view_of(form.body) for one in spans]
    bare_headers = _ANY_RECEIVED.sub(b"", span.bytes_of(form.body))
    authors = from_mailboxes(headers)
    return Message(
        headers=headers,
        header_flaw=flaw,
        authors=authors,
        text=MailText(body, attachments, flags),
        part_types=_part_types(
            (file.media_type, file.span.bytes_of(form.body, _calendar_bytes(file.media_type)))
            for file in form.files
        ),
        report=tuple(
            ReportPart(file.media_type, file.span.bytes_of(form.body, REPORT_MAX_BYTES))
            for file in form.files
            if file.media_type in _REPORT_TYPES
        ),
        dedup_key=dedup_key(headers, authors, content, [bare_headers, *content]),
    )


def _charset(form: FormData, field: str) -> str | None:
    """Return the charset that the form names for a field."""
    name = read_json(form.value("charsets", SMALL_FIELD_MAX_BYTES)).get(field)
    return name if isinstance(name, str) else None


def decoded_field(form: FormData, name: str) -> str:
    """Return a short field as text."""
    return decode(form.value(name, SMALL_FIELD_MAX_BYTES), _charset(form, name)).strip()


# --- form data ------------------------------------------------------------------------------------


FIELDS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class FormFile:
    """A file part: its field, its name as sent, its type, and the span of its bytes in the request."""

    field: str
    name: str
    content_type: str
    span: Span

    @property
    def media_type(self) -> str:
        return self.content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class FormData:
    """A request's fields. `repeated`: a field came twice, or fields followed the closing boundary, so the
    mail's sender may have written some of them. `closed`: there was a closing boundary."""

    body: bytes
    fields: Mapping[str, Span]
    files: tuple[FormFile, ...]
    repeated: bool
    closed: bool

    def value(self, name: str, max_bytes: int) -> bytes:
        """Return the first `max_bytes` of a field; empty bytes if it is missing."""
        return self.fields.get(name, Span(0, 0)).bytes_of(self.body, max_bytes)


def parse_form(content_type: str, body: bytes) -> FormData | None:
    """Return the form, or None if the request is not multipart/form-data. Never raises."""
    media_type, parameters = parse_parameters(content_type)
    boundary = parameters.get("boundary", "").encode("utf-8", "ignore")
    if media_type != "multipart/form-data" or not 0 < len(boundary) <= BOUNDARY_MAX_LENGTH:
        return None
    # SendGrid frames its requests with CRLF and sends mail with bare LF. In strict mode, a boundary line inside
    # a mail does not end the field `email`.
    split = split_parts(body, Span(0, len(body)), boundary, FIELDS_MAX, strict=True)
    fields: dict[str, Span] = {}
    files: list[FormFile] = []
    repeated = split.after_close
    for span in split.parts:
        headers, start, _ = parse_block(body, span)
        kind, names = parse_parameters(first(headers, "content-disposition"))
        name, value = names.get("name", ""), Span(start, span.end)
        if kind != "form-data" or not name:
            continue
        if "filename" in names:
            media_type = first(headers, "content-type")
            files.append(FormFile(name, names["filename"], media_type, value))
        else:
            repeated = repeated or name.lower() in fields
            fields.setdefault(name.lower(), value)
    return FormData(body, fields, tuple(files), repeated, split.closed)
