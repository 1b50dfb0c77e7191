"""Attachments as they may be shown and saved: harmless names and types. Their bytes stay in the mail."""

from __future__ import annotations

import re
import unicodedata

from mailagent.domain.card_number import mask_card_numbers
from mailagent.domain.mail import Attachment

FILE_NAME_MAX_LENGTH = 200
_EXTENSION_MAX_LENGTH = 10

_SAFE_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,80}/[a-z0-9!#$&^_.+-]{1,80}")
# Controls, direction marks, surrogates, line separators: they make a name look like another.
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def make_attachment(name: str, content_type: str, size_bytes: int) -> Attachment:
    """Return an attachment whose name is harmless to show and to save under."""
    media_type = content_type.partition(";")[0].strip().lower()
    safe_type = media_type if _SAFE_TYPE.fullmatch(media_type) else "application/octet-stream"
    return Attachment(mask_card_numbers(harmless_name(name)), safe_type, size_bytes)


def harmless_name(name: str) -> str:
    """Return a file name without folders, control and direction characters; never empty."""
    base = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c for c in base if unicodedata.category(c) not in _UNSAFE_CATEGORIES)
    stem, dot, extension = kept.strip(" .").rpartition(".")
    if dot and len(extension) <= _EXTENSION_MAX_LENGTH:
        return f"{stem[: FILE_NAME_MAX_LENGTH - 1 - _EXTENSION_MAX_LENGTH]}.{extension}"
    return kept.strip(" .")[:FILE_NAME_MAX_LENGTH] or "unnamed"
