"""Attachments: safe names and types, how many we list, and whether a file has secret links.

Their bytes stay in the raw mail.
"""

from __future__ import annotations

import base64
import binascii
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.entities import html5
from itertools import groupby
from urllib.parse import quote

from mailagent.domain.mail.message import Attachment
from mailagent.domain.mail.redaction import holds_key, mask_card_numbers

# People attach a few files. A mail with more comes from a machine or an attacker; the raw mail still has all of
# them.
ATTACHMENTS_MAX = 200
# No photo of a phone is larger. SendGrid accepts mails of 30 MB, but a download needs the whole mail and
# several copies of the file in memory: with this limit, at most 150 MB.
DOWNLOAD_MAX_BYTES = 10_000_000
FILE_NAME_MAX_LENGTH = 200
_EXTENSION_MAX_LENGTH = 10

_SAFE_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,80}/[a-z0-9!#$&^_.+-]{1,80}")
# Control characters, direction marks, surrogates and line separators, which make a name look like another one.
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Not allowed in names on Windows. There, a colon opens a hidden stream of another file.
_RESERVED = re.compile(r'[<>:"|?*]')
# On Windows these names are devices, even with an extension.
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\.|$)",
    re.IGNORECASE,
)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ._()+-]")


@dataclass(frozen=True, slots=True)
class AttachmentBytes:
    """A file that came with a mail, decoded, with a safe name (see `harmless_name`)."""

    name: str
    data: bytes


def may_be_downloaded(file: Attachment) -> bool:
    """Return whether a file is small enough to download."""
    return file.size_bytes <= DOWNLOAD_MAX_BYTES


def make_attachment(name: str, content_type: str, size_bytes: int) -> Attachment:
    """Return an attachment with a safe name (see `harmless_name`)."""
    media_type = content_type.partition(";")[0].strip().lower()
    safe_type = media_type if _SAFE_TYPE.fullmatch(media_type) else "application/octet-stream"
    return Attachment(mask_card_numbers(harmless_name(name)), safe_type, size_bytes)


def harmless_name(name: str) -> str:
    """Return a file name that is safe to show and to save: without folders, control characters and direction
    marks, and no name of a device. It is never empty."""
    base = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c for c in base if unicodedata.category(c) not in _UNSAFE_CATEGORIES)
    # Many blanks could push the real extension out of sight.
    whole = _RESERVED.sub("_", " ".join(kept.split())).strip(" .")
    stem, dot, extension = whole.rpartition(".")
    if dot and len(extension) <= _EXTENSION_MAX_LENGTH:
        whole = f"{stem[: FILE_NAME_MAX_LENGTH - 1 - _EXTENSION_MAX_LENGTH]}.{extension}"
    whole = whole[:FILE_NAME_MAX_LENGTH].strip(" .") or "unnamed"
    return f"_{whole}" if _DEVICE.match(whole) else whole


def content_disposition(name: str) -> str:
    """Return the Content-Disposition header by which a browser saves a file and does not show it (RFC 6266
    appendix D).

    `name`: a safe name. Programs that do not know RFC 5987 get it in ASCII.
    """
    name = _RESERVED.sub("_", name)  # a masked card number has asterisks
    return (
        f'attachment; filename="{_NOT_PLAIN.sub("_", name)}"; '
        f"filename*=UTF-8''{quote(name, safe='')}"
    )


# --- secret scan ----------------------------------------------------------------------------------


# People forward no deeper than an encoded mail within an encoded mail.
_DEPTH_MAX = 2
_LEAST = 60  # characters of base64; every link is longer
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{20,}+(?:[\s>]{1,8}[A-Za-z0-9+/]{4,}+)*+")
_TAG = re.compile(rb"<[^<>]{0,300}+>")
_BEGIN_BYTES = 4_000  # of a file, by which a text is told from a photo
_IN_TEXTS = bytes({*range(0x20, 0x100), *b"\t\n\f\r\x1b"} - {0x7F})


def may_hold_key(data: bytes, is_secret: Callable[[str], bool] | None) -> bool:
    """Return whether a file, as it is or decoded, has a link by which its reader could decide on a refund or
    log in. `is_secret`: says whether a word is the secret of a login; None if no login link works."""
    return any(holds_key(each, is_secret) for each in _readings(data, _DEPTH_MAX))


def _readings(data: bytes, depth: int) -> Iterator[bytes]:
    """Yield the content of a file, decoded in each way in which a mail program may read it."""
    data = data.replace(b"\0", b"")  # turns UTF-16 of ASCII into ASCII
    yield data
    if not data[:_BEGIN_BYTES].translate(None, _IN_TEXTS):
        if b"=" in data:
            yield binascii.a2b_qp(data)
        if b"&" in data or b"<" in data:
            yield from _read_html(data)
    for found in _BASE64.finditer(data) if depth else ():
        letters = b"".join(found[0].replace(b">", b"").split())
        # The match may begin too early, with a word before the block, such as a boundary: try each offset.
        for start in range(4) if len(letters) >= _LEAST else ():
            whole = (len(letters) - start) // 4 * 4 + start
            yield from _readings(base64.b64decode(letters[start:whole]), depth - 1)


# `html.unescape` takes seconds for a large file that has little else than ampersands. So decode only the names
# that matter here: those of ASCII and of invisible characters, which can be in a link, and those that need no
# semicolon, which can stand directly before one.
_NAMED = {
    name: value
    for name, value in html5.items()
    if value.isascii() or unicodedata.category(value[0]) == "Cf" or not name.endswith(";")
}


def _any_name() -> str:
    """Return a pattern for these names, by their first letters. Of names that begin alike the longest wins."""
    begun = groupby(sorted(_NAMED, reverse=True), key=lambda name: name[0])
    return "|".join(f"{first}(?:{'|'.join(each[1:] for each in alike)})" for first, alike in begun)


_REFERENCE = re.compile(
    rf"&(?:({_any_name()})|#0*+([0-9]{{1,7}})(?![0-9]);?"
    r"|#[xX]0*+([0-9a-fA-F]{1,6})(?![0-9a-fA-F]);?)"
)


def _read_html(data: bytes) -> Iterator[bytes]:
    """Yield the text of an HTML page, and the contents of its tags, which may have a URL."""
    for part in {_TAG.sub(b"", data), data}:
        read = _REFERENCE.sub(_referred, part.decode("latin-1"))
        yield read.encode("utf-8", "replace")


def _referred(found: re.Match[str]) -> str:
    """Return what a character reference of HTML stands for."""
    name, decimal, hexadecimal = found.groups()
    if name:
        return _NAMED[name]
    code = int(decimal or hexadecimal, 10 if decimal else 16)
    return chr(code) if code <= sys.maxunicode else "\ufffd"
