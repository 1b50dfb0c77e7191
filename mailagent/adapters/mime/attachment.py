"""Attachments: safe names and types, how many are listed, and whether a file holds secret links.

Their bytes stay in the stored request.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from mailagent.domain.mail.message import Attachment
from mailagent.domain.mail.redaction import holds_key, mask_card_numbers

# People attach a handful; a mail with more is a machine's or an attack, and has them in its raw bytes.
ATTACHMENTS_MAX = 200
# Above any photo of a phone. SendGrid takes mails of 30 MB, but handing out a file needs the whole
# mail in memory and several times the file: this keeps that within 150 MB.
DOWNLOAD_MAX_BYTES = 10_000_000
FILE_NAME_MAX_LENGTH = 200
_EXTENSION_MAX_LENGTH = 10

_SAFE_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,80}/[a-z0-9!#$&^_.+-]{1,80}")
# Controls, direction marks, surrogates, line separators: they make a name look like another.
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Not allowed in names on Windows, where a colon opens a hidden stream of another file.
_RESERVED = re.compile(r'[<>:"|?*]')
# On Windows these are devices, whatever extension follows.
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\.|$)",
    re.IGNORECASE,
)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ._()+-]")


@dataclass(frozen=True, slots=True)
class AttachmentBytes:
    """A file that came with a mail, decoded; `name` is harmless."""

    name: str
    data: bytes


def may_be_downloaded(file: Attachment) -> bool:
    """Return whether a file is small enough to be handed out."""
    return file.size_bytes <= DOWNLOAD_MAX_BYTES


def make_attachment(name: str, content_type: str, size_bytes: int) -> Attachment:
    """Return an attachment whose name is harmless to show and to save under."""
    media_type = content_type.partition(";")[0].strip().lower()
    safe_type = media_type if _SAFE_TYPE.fullmatch(media_type) else "application/octet-stream"
    return Attachment(mask_card_numbers(harmless_name(name)), safe_type, size_bytes)


def harmless_name(name: str) -> str:
    """Return a file name without folders, control and direction characters, that no system takes for
    anything but a file; never empty."""
    base = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c for c in base if unicodedata.category(c) not in _UNSAFE_CATEGORIES)
    # A long gap would push the real extension out of sight.
    whole = _RESERVED.sub("_", " ".join(kept.split())).strip(" .")
    stem, dot, extension = whole.rpartition(".")
    if dot and len(extension) <= _EXTENSION_MAX_LENGTH:
        whole = f"{stem[: FILE_NAME_MAX_LENGTH - 1 - _EXTENSION_MAX_LENGTH]}.{extension}"
    whole = whole[:FILE_NAME_MAX_LENGTH].strip(" .") or "unnamed"
    return f"_{whole}" if _DEVICE.match(whole) else whole


def content_disposition(name: str) -> str:
    """Return the header by which a browser saves a file, and never shows it (RFC 6266 appendix D).

    `name` is harmless already. Programs that do not know RFC 5987 get it in ASCII.
    """
    name = _RESERVED.sub("_", name)  # a card number was masked with asterisks
    return (
        f'attachment; filename="{_NOT_PLAIN.sub("_", name)}"; '
        f"filename*=UTF-8''{quote(name, safe='')}"
    )


# --- secret scan ----------------------------------------------------------------------------------


# An encoded mail within an encoded mail is as deep as people forward.
_DEPTH_MAX = 2
_LEAST = 60  # letters of base64: no link is shorter
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{20,}+(?:[\s>]{1,8}[A-Za-z0-9+/]{4,}+)*+")
_TAG = re.compile(rb"<[^<>]{0,300}+>")
_BEGIN_BYTES = 4_000  # of a file, by which a text is told from a photo
_IN_TEXTS = bytes({*range(0x20, 0x100), *b"\t\n\f\r\x1b"} - {0x7F})


def may_hold_key(data: bytes, is_secret: Callable[[str], bool] | None) -> bool:
    """Return whether the bytes of a file, as they are or decoded, hold such a link. `is_secret` says
    whether a word logs somebody in; None when none does."""
    return any(holds_key(each, is_secret) for each in _readings(data, _DEPTH_MAX))


def _readings(data: bytes, depth: int) -> Iterator[bytes]:
    """Give what a file says, read in each way that a mail program would."""
    data = data.replace(b"\0", b"")  # UTF-16 loses its zeros
    yield data
    if not data[:_BEGIN_BYTES].translate(None, _IN_TEXTS):
        if b"=" in data:
            yield binascii.a2b_qp(data)
        if b"&" in data or b"<" in data:
            yield from _read_html(data)
    for found in _BASE64.finditer(data) if depth else ():
        letters = b"".join(found[0].replace(b">", b"").split())
        # The word before a block, such as a boundary, may have been taken for its beginning.
        for start in range(4) if len(letters) >= _LEAST else ():
            whole = (len(letters) - start) // 4 * 4 + start
            yield from _readings(base64.b64decode(letters[start:whole]), depth - 1)


def _read_html(data: bytes) -> Iterator[bytes]:
    """Give the words of a page, and what its tags say: an address may stand in one."""
    for part in (_TAG.sub(b"", data), data):
        yield html.unescape(part.decode("latin-1")).encode("utf-8", "replace")
