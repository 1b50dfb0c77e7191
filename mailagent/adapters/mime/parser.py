"""Parses a MIME mail into a tree of parts, with their positions in the source, and decodes their bytes.

It is safe with hostile mails of 30 MB: parts are positions in the source, never copies, and their depth and
number are bounded. `mail_text` reads the text of the parts.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mailagent.adapters.mime.headers import (
    ODD_HEADERS,
    Headers,
    decode_base64,
    first,
    parse_block,
    parse_parameters,
)
from mailagent.adapters.mime.multipart import BOUNDARY_MAX_LENGTH, Span, split_parts

DEPTH_MAX = 20
PARTS_MAX = 1_000

_CHUNK_BYTES = 1_000_000
_BASE64_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64 = bytes(set(range(256)) - set(_BASE64_LETTERS))
# Fields that servers add on top, perhaps with other line ends than the mail's.
_TRACE = re.compile(rb"(?:(?:Received|Return-Path):[^\n]*\n(?:[ \t][^\n]*\n)*+)*+", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,80}/[a-z0-9!#$&^_.+-]{1,80}")


@dataclass(frozen=True, slots=True)
class Part:
    """One node of the tree. Its body is `source[body.start:body.end]`, still encoded.

    `children`: for a message/rfc822 part, the one message in it. `cut`: the mail has more parts, or deeper
    ones, than we read. `flaw`: see `headers.Block`.
    """

    source: bytes
    headers: Headers
    media_type: str
    parameters: Mapping[str, str]
    body: Span
    children: tuple[Part, ...] = ()
    cut: bool = False
    flaw: str | None = None

    @property
    def disposition(self) -> str:
        return parse_parameters(first(self.headers, "content-disposition"))[0]

    @property
    def file_name(self) -> str:
        """The file name that the sender gave the part, not yet made safe; empty if it has none."""
        disposition = parse_parameters(first(self.headers, "content-disposition"))[1]
        return disposition.get("filename") or self.parameters.get("name", "")

    def walk(self) -> list[Part]:
        """Return this part and all parts below it, in order, but not those of attached messages."""
        parts = [self]
        if self.media_type.startswith("multipart/"):
            for child in self.children:
                parts += child.walk()
        return parts


class _PartsLeft:
    """How many parts we may still read, in the whole tree."""

    def __init__(self) -> None:
        self.number = PARTS_MAX


def parse_mime(source: bytes, whole: Span) -> Part:
    """Return the tree of the mail at the positions `whole` of `source`. Never raises: a mail without MIME is
    one text part."""
    start = whole.start
    while start < whole.end and source[start] in b"\r\n":
        start += 1
    written = _TRACE.match(source, start, whole.end).end()  # type: ignore[union-attr]  # matches nothing, too
    last = whole.end - source.endswith(b"\n", written, whole.end)
    if source.find(b"\n", written, last) < 0 and source.find(b"\r", written, last) >= 0:
        source = source[start : whole.end].replace(b"\r", b"\n")  # line ends of old Macs
        part = _parse_part(source, Span(0, len(source)), "text/plain", DEPTH_MAX, _PartsLeft())
        return replace(part, flaw=part.flaw or ODD_HEADERS)
    return _parse_part(source, Span(start, whole.end), "text/plain", DEPTH_MAX, _PartsLeft())


def _parse_part(source: bytes, whole: Span, default: str, depth: int, left: _PartsLeft) -> Part:
    headers, body_start, flaw = parse_block(source, whole)
    media_type, parameters = parse_parameters(first(headers, "content-type"))
    if not _MEDIA_TYPE.fullmatch(media_type):
        # Such as "Content-Type: text". An invalid type must not hide a text.
        media_type = "text/html" if "html" in media_type else default
    left.number -= 1
    part = Part(source, headers, media_type, parameters, Span(body_start, whole.end), flaw=flaw)
    if media_type.startswith("multipart/"):
        return _with_children(part, depth, left)
    if media_type in {"message/rfc822", "message/global"}:
        return _with_message(part, depth, left)
    return part


def _with_children(part: Part, depth: int, left: _PartsLeft) -> Part:
    boundary = part.parameters.get("boundary", "").encode("utf-8", "ignore")
    if not boundary or len(boundary) > BOUNDARY_MAX_LENGTH:
        return replace(part, media_type="text/plain")
    if depth == 0 or left.number <= 0:
        return replace(part, media_type="application/octet-stream", cut=True)
    split = split_parts(part.source, part.body, boundary, left.number)
    if not split.parts:
        return replace(part, media_type="text/plain")
    default = "message/rfc822" if part.media_type == "multipart/digest" else "text/plain"
    children = tuple(
        _parse_part(part.source, span, default, depth - 1, left) for span in split.parts
    )
    return replace(part, children=children, cut=split.cut)


def _with_message(part: Part, depth: int, left: _PartsLeft) -> Part:
    if depth == 0 or left.number <= 0:
        return replace(part, cut=True)
    source, whole = part.source, part.body
    if _transfer_encoding(part) in {"base64", "quoted-printable"}:  # forbidden, but it occurs
        source = decoded_body(part)
        whole = Span(0, len(source))
    return replace(part, children=(_parse_part(source, whole, "text/plain", depth - 1, left),))


def _transfer_encoding(part: Part) -> str:
    return first(part.headers, "content-transfer-encoding").strip(" \t;.\"'").lower()


def decoded_body(part: Part, max_bytes: int | None = None) -> bytes:
    """Return the decoded bytes of a leaf, from at most `max_bytes` of its encoded source."""
    data = part.body.bytes_of(part.source, max_bytes)
    match _transfer_encoding(part):
        case "base64":
            return decode_base64(data)
        case "quoted-printable":
            return binascii.a2b_qp(data)
        case _:
            return data


def decoded_size(part: Part) -> int:
    """Return how many bytes a leaf has when decoded, without decoding it. It is exact for valid base64."""
    source, start, end = part.source, part.body.start, part.body.end
    match _transfer_encoding(part):
        case "base64":
            chunks = (
                source[at : min(at + _CHUNK_BYTES, end)] for at in range(start, end, _CHUNK_BYTES)
            )
            return sum(len(chunk.translate(None, _NOT_BASE64)) for chunk in chunks) * 3 // 4
        case "quoted-printable":
            soft_breaks = source.count(b"=\r\n", start, end)
            return max(0, end - start - 2 * source.count(b"=", start, end) - soft_breaks)
        case _:
            return end - start
