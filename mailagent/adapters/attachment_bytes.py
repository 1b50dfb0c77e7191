"""The bytes of one attachment, taken out of the stored request. Whoever asks must have been allowed to."""

from __future__ import annotations

from dataclasses import dataclass

from mailagent.adapters.mime.attachment import ATTACHMENTS_MAX, DOWNLOAD_MAX_BYTES, make_attachment
from mailagent.adapters.mime.mail_text import describe_file, list_files
from mailagent.adapters.mime.parser import Part, decoded_body, parse_mime
from mailagent.adapters.sendgrid.form_data import FormData, parse_form
from mailagent.domain.mail.message import Attachment


@dataclass(frozen=True, slots=True)
class AttachmentBytes:
    """A file that came with a mail, decoded; `name` is harmless."""

    name: str
    data: bytes


def find_attachment(content_type: str, body: bytes, number: int) -> AttachmentBytes | None:
    """Return the file that `ParsedMail.attachments[number]` of this request lists.

    None if there is no such file, or if it is above DOWNLOAD_MAX_BYTES. Never raises, whatever the
    bytes: they are a stranger's.
    """
    form = parse_form(content_type, body)
    if form is None or not form.fields or not 0 <= number < ATTACHMENTS_MAX:
        return None
    if (span := form.fields.get("email")) is not None:
        files = list_files(parse_mime(form.body, span))
        return _from_part(files[number]) if number < len(files) else None
    return _from_form(form, number) if number < len(form.files) else None


def _from_part(part: Part) -> AttachmentBytes | None:
    file = describe_file(part)
    if not may_be_downloaded(file):
        return None
    return AttachmentBytes(file.name, decoded_body(part, part.body.end - part.body.start))


def _from_form(form: FormData, number: int) -> AttachmentBytes | None:
    posted = form.files[number]
    file = make_attachment(posted.name, posted.content_type, posted.span.end - posted.span.start)
    if not may_be_downloaded(file):
        return None
    return AttachmentBytes(file.name, posted.value(form.body, DOWNLOAD_MAX_BYTES))


def may_be_downloaded(file: Attachment) -> bool:
    """Return whether a file is small enough to be handed out."""
    return file.size_bytes <= DOWNLOAD_MAX_BYTES
