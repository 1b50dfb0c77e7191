"""The fields of a multipart/form-data request as exact bytes, for requests that carry mail.

Werkzeug's form decodes as UTF-8 with replacement, which destroys mail; and it keeps quiet when a
field comes twice. SendGrid's boundary is the same for everybody, so a sender can write it into a
mail and try to add fields of their own: whoever reads the form must be able to see that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from mailagent.adapters.mime.mail_header import first, parse_block, parse_parameters
from mailagent.adapters.mime.multipart import BOUNDARY_MAX_LENGTH, Span, split_parts

FIELDS_MAX = 1_000

# How SendGrid begins all fields but files: read as any other block of headers would be, but at once.
_PLAIN_FIELD = re.compile(rb'Content-Disposition: form-data; name="([A-Za-z_]{1,40})"\r\n\r\n')


@dataclass(frozen=True, slots=True)
class FormFile:
    """A file part: its name as sent, its type, and where its bytes lie in the request."""

    field: str
    name: str
    content_type: str
    span: Span

    def value(self, body: bytes, max_bytes: int) -> bytes:
        """Return the first `max_bytes` of the file, which lies in `body`."""
        return body[self.span.start : min(self.span.end, self.span.start + max_bytes)]


@dataclass(frozen=True, slots=True)
class FormData:
    """A request's fields. `repeated`: a field name came twice, or fields followed the end mark, so
    the sender may have written some of them. `closed`: the end mark was there."""

    body: bytes
    fields: Mapping[str, Span]
    files: tuple[FormFile, ...]
    repeated: bool
    closed: bool

    def value(self, name: str, max_bytes: int) -> bytes:
        """Return the first `max_bytes` of a field's bytes; nothing if the field is missing."""
        span = self.fields.get(name)
        return (
            b"" if span is None else self.body[span.start : min(span.end, span.start + max_bytes)]
        )


def parse_form(content_type: str, body: bytes) -> FormData | None:
    """Return the form, or None if the request is not multipart/form-data. Never raises."""
    media_type, parameters = parse_parameters(content_type)
    boundary = parameters.get("boundary", "").encode("utf-8", "ignore")
    if media_type != "multipart/form-data" or not 0 < len(boundary) <= BOUNDARY_MAX_LENGTH:
        return None
    # SendGrid frames its requests with CRLF and sends mail with bare LF: so a boundary line that
    # somebody wrote into a mail does not end the field which that mail is.
    split = split_parts(body, Span(0, len(body)), boundary, FIELDS_MAX, strict=True)
    fields: dict[str, Span] = {}
    files: list[FormFile] = []
    repeated = split.after_close
    for span in split.parts:
        if plain := _PLAIN_FIELD.match(body, span.start, span.end):
            name = plain[1].decode().lower()
            repeated = repeated or name in fields
            fields.setdefault(name, Span(plain.end(), span.end))
            continue
        headers, start, _ = parse_block(body, span)
        name, file_name = _names(first(headers, "content-disposition"))
        value = Span(start, span.end)
        if not name:
            continue
        if file_name is not None:
            files.append(FormFile(name, file_name, first(headers, "content-type"), value))
        else:
            repeated = repeated or name.lower() in fields
            fields.setdefault(name.lower(), value)
    return FormData(body, fields, tuple(files), repeated, split.closed)


# SendGrid calls its fields the same in every request.
@lru_cache(maxsize=100)
def _names(disposition: str) -> tuple[str, str | None]:
    """Return what a field is called, and its file; no name at all for what is no field of a form."""
    kind, names = parse_parameters(disposition)
    return names.get("name", "") if kind == "form-data" else "", names.get("filename")
