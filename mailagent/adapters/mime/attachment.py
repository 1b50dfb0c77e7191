"""Attachments as they may be shown and saved: harmless names and types, and how much of a mail is
listed and handed out. Their bytes stay in the mail: `attachment_bytes` takes them out."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from mailagent.domain.mail.card_number import mask_card_numbers
from mailagent.domain.mail.message import Attachment

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
