"""Whether a file holds a link that decides or logs in: a mail that was saved as text or as a page does, also
where its parts are encoded. What is packed (ZIP, PDF) is not unpacked."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator

from mailagent.domain.mail.secrets import holds_key

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
