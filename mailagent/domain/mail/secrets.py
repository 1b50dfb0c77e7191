"""Words by which whoever has them decides, or logs in, as somebody else: found in texts and cut out.

People quote and forward the mails that hold them, and others read what they wrote. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_WORD = r"[A-Za-z0-9_-]"
# What mail programs put into a long word: signs without width, ends of lines with marks of quotation, and
# the same as JSON writes them. Few at a time, so that no text makes the search slow.
_GAP = (
    r"(?:[\u00ad\u034f\u200b-\u200f\u2028\u2029\u2060\ufeff]"
    r"|(?:=|[ \t])?(?:\r\n|\n|\r|(?:\\r)?\\n)[ \t>|]{0,12}+){0,3}+"
)
# Between the parts of a path: as it is, in addresses that a mail filter has rewritten (Proofpoint writes
# `_` and `-2F`), and in HTML.
_SLASH = r"(?:/|_|%(?:25){0,2}2f|-2f|&#0{0,4}47;|&#x0{0,4}2f;|&sol;)"


def _spread(word: str) -> str:
    return _GAP.join(map(re.escape, word))


def _long(least: int) -> str:
    """Return a pattern for a word of at least so many letters, also over several lines."""
    return rf"(?:{_WORD}{_GAP}){{{least - 1}}}{_WORD}(?:{_WORD}|[.~])*+"


SECRET_LENGTH = 43  # of a signature and of a login's secret, as base64 writes 256 bits
# Every token of an approval is signed JSON that begins with `["approval_`, as base64 writes it.
_BEGINNING = "WyJhcHByb3ZhbF"
_APPROVAL = re.compile(
    rf"{_spread(_BEGINNING)}{_GAP}"
    rf"(?:(?:{_WORD}{_GAP}){{4,600}}?\.{_GAP}{_long(SECRET_LENGTH)}|(?:{_WORD}|[.~])*+)"
)
# A token that was worth compressing shows no beginning: the signature tells it.
_COMPRESSED = re.compile(rf"\.eJ{_WORD}{{20,600}}+\.{_WORD}{{{SECRET_LENGTH}}}(?!{_WORD})")
_LINK = re.compile(
    rf"{_SLASH}{_GAP}(approvals|ops{_SLASH}login){_SLASH}{_GAP}"
    rf"(?:{_long(SECRET_LENGTH)}|(?<![\s>|])[A-Za-z0-9_.~-]{{8,}})",
    re.IGNORECASE,
)
_SECRET = re.compile(rf"(?<!{_WORD}){_long(SECRET_LENGTH)}")
_GAPS = re.compile(_GAP)


def without_keys(text: str, is_secret: Callable[[str], bool] | None = None) -> str:
    """Return a text without the words by which its reader could decide or log in as somebody else.

    `is_secret` says whether a word of `SECRET_LENGTH` letters logs somebody in.
    """
    text = _APPROVAL.sub("…", text)
    text = _COMPRESSED.sub("…", text)
    text = _LINK.sub(lambda found: f"/{_plain(found[1])}/…", text)
    return _SECRET.sub(lambda found: _judged(found[0], is_secret), text) if is_secret else text


def _plain(path: str) -> str:
    return "approvals" if path[0] in "aA" else "ops/login"


def _judged(found: str, is_secret: Callable[[str], bool]) -> str:
    """Return what is left of a long word: nothing, if it begins with a secret or ends in one."""
    word = _GAPS.sub("", found).rstrip(".")
    ends = (word[:SECRET_LENGTH], word[-SECRET_LENGTH:])
    return "…" if any(is_secret(each) for each in ends) else found


# The same in the bytes of files, without gaps: megabytes are searched in no time.
_ANY = re.compile(
    rf"{_BEGINNING}|\.eJ{_WORD}{{20,600}}+\.{_WORD}{{{SECRET_LENGTH}}}"
    rf"|ops(?i:{_SLASH})login(?i:{_SLASH}){_WORD}{{{SECRET_LENGTH}}}".encode()
)
_ALONE = re.compile(rf"(?<!{_WORD}){_WORD}{{{SECRET_LENGTH}}}(?!{_WORD})".encode())
_GAP_BYTES = b" \t\r\n\0>|="
_NO_WIDTH = tuple(sign.encode() for sign in "\u00ad\u200b\u200c\u200d\u2060\ufeff")


def holds_key(data: bytes, is_secret: Callable[[str], bool] | None = None) -> bool:
    """Whether a file has a word by which its reader could decide or log in as somebody else."""
    dense = data.translate(None, _GAP_BYTES)
    for sign in _NO_WIDTH:
        dense = dense.replace(sign, b"")
    if _ANY.search(dense):
        return True
    return is_secret is not None and any(is_secret(each.decode()) for each in _ALONE.findall(data))
