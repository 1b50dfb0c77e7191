"""Parses mail headers: fields, encoded words (RFC 2047), parameters (RFC 2231), ids, dates and charsets.

Takes linear time; never raises. `address_list` parses addresses.
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from encodings.aliases import aliases
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from mailagent.adapters.mime.multipart import Span

BLOCK_MAX_BYTES = 256_000
FIELDS_MAX = 1_000
VALUE_MAX_LENGTH = 20_000
IDS_MAX = 100
# How many lines without a field we skip: the "From ada@example.com Sat Jan  1 ..." of a mailbox file, or notes
# of filters without a colon.
BROKEN_LINES_MAX = 3
TRACE_FIELDS = {"received", "return-path"}

# Header fields by lower-case name. Values are in their order, unfolded, with encoded words not decoded.
Headers = Mapping[str, tuple[str, ...]]

# Flags of a block: we did not read all of it; other programs may read it in another way.
CUT_HEADERS, ODD_HEADERS = "cut_headers", "odd_headers"

# Control characters, blanks before a colon, and lines of only blanks. Programs disagree on where such a field
# begins, what its name is, and where the block ends.
_ODD = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|^[ \t]++\r?$|^[!-9;-~]++[ \t]++:", re.MULTILINE
)
_FIELD = re.compile(rb"([!-9;-~]{1,200})[ \t]*:")
_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*+(?:\?(?!=)[^?]*+){0,20}+)\?=")
_PARAMETER = re.compile(
    r""";\s*+([^\s=;"]{1,200})\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"?|([^;]*+))""", re.DOTALL
)
_SEGMENT = re.compile(r"([^*]+)(?:\*(\d{1,3}))?(\*)?")
_BRACKETED = re.compile(r"<([^<>]{1,1200})>")
_ID = re.compile(r"[!-;=?-~]{1,998}")  # printable ASCII; one line, RFC 5322 section 2.1.1


class Block(NamedTuple):
    """A header block. `body`: the position where the body begins. `flaw`: the flag that says why a server that
    verifies signatures may read other fields from these bytes than we do; None if it reads the same."""

    headers: Headers
    body: int
    flaw: str | None


def parse_block(source: bytes, whole: Span) -> Block:
    """Return the header fields at the start of `whole`.

    A line that is no field ends the block, even if it is not blank, so that we lose nothing of the body if the
    blank line is missing. But if fields follow it, it is a broken line, which we skip.
    """
    fields: list[tuple[str, list[bytes]]] = []
    at, broken, cut, odd = whole.start, 0, False, False
    while at < whole.end:
        line, following = _line_at(source, at, whole.end)
        if not line:
            break
        if line[:1] in b" \t" and fields:
            fields[-1][1].append(line)
        elif match := _FIELD.match(line):
            fields.append((match[1].decode("ascii").lower(), [line[match.end() :]]))
        elif broken < BROKEN_LINES_MAX and _FIELD.match(_line_at(source, following, whole.end)[0]):
            broken += 1
            # Nothing above this line is signed. A program that takes the line for the end finds no signature.
            odd = odd or any(name not in TRACE_FIELDS for name, _lines in fields)
        else:
            return _block(fields, at, cut, odd=True)
        cut = cut or following - at > VALUE_MAX_LENGTH
        at = following
        if at - whole.start > BLOCK_MAX_BYTES or len(fields) > FIELDS_MAX:
            body = _after_blank_line(source, at, whole.end)
            return _block(fields, body, cut=True)
    odd = odd or _ODD.search(source, whole.start, at) is not None
    return _block(fields, _line_at(source, at, whole.end)[1], cut, odd)


def _line_at(source: bytes, at: int, end: int) -> tuple[bytes, int]:
    line_end = source.find(b"\n", at, end)
    following = end if line_end < 0 else line_end + 1
    return source[at : min(following, at + VALUE_MAX_LENGTH)].rstrip(b"\r\n"), following


def _after_blank_line(source: bytes, at: int, end: int) -> int:
    match = re.compile(rb"\n\r?\n").search(source, max(at - 2, 0), end)
    return match.end() if match else end


def _block(fields: list[tuple[str, list[bytes]]], body: int, cut: bool, odd: bool = False) -> Block:
    values: dict[str, list[str]] = {}
    for name, lines in fields:
        value = b" ".join(line.strip() for line in lines)
        cut = cut or len(value) > VALUE_MAX_LENGTH
        values.setdefault(name, []).append(decode(value[:VALUE_MAX_LENGTH], None))
    flaw = CUT_HEADERS if cut else ODD_HEADERS if odd else None
    return Block({name: tuple(found) for name, found in values.items()}, body, flaw)


def first(headers: Headers, name: str) -> str:
    """Return the first value of a field; an empty text if it is missing."""
    return headers.get(name, ("",))[0]


def decode_words(value: str) -> str:
    """Return a header value with its encoded words decoded, on one line (RFC 2047).

    It decodes neighbouring words of one charset together, because some programs split a character between them.
    Text that is no valid encoded word stays as it is.
    """
    if "=?" not in value:
        return clean(" ".join(value.split()))
    pieces = _WORD.split(value)
    out, pending, pending_charset = [pieces[0]], b"", ""
    words = zip(pieces[1::4], pieces[2::4], pieces[3::4], pieces[4::4], strict=True)
    for charset, encoding, text, plain in words:
        if charset != pending_charset:
            out.append(decode(pending, pending_charset))
            pending = b""
        pending, pending_charset = pending + _word_bytes(encoding, text), charset
        if plain.strip():  # leave out white space between two encoded words (section 6.2)
            out += [decode(pending, pending_charset), plain]
            pending = b""
    out.append(decode(pending, pending_charset))
    return clean(" ".join("".join(out).split()))


def _word_bytes(encoding: str, text: str) -> bytes:
    data = text.encode("utf-8", "ignore")
    if encoding in "bB":
        return decode_base64(data)
    return binascii.a2b_qp(data, header=True)


def decode_base64(data: bytes) -> bytes:
    """Return decoded base64, as far as it is valid. It skips foreign characters, and decodes several padded
    texts in a row."""
    out = []
    for piece in re.split(rb"=+", re.sub(rb"[^A-Za-z0-9+/=]+", b"", data)):
        whole = piece if len(piece) % 4 != 1 else piece[:-1]  # a single last character is no byte
        out.append(binascii.a2b_base64(whole + b"=" * (-len(whole) % 4)))
    return b"".join(out)


def parse_parameters(value: str) -> tuple[str, dict[str, str]]:
    """Return the main word of a field such as Content-Type, and its parameters by name, both in lower case.

    It joins continuations and applies charsets (RFC 2231), and decodes encoded words, which the RFC forbids
    here but Outlook writes. Of repeated names the first counts.
    """
    main = value.partition(";")[0].strip().lower()
    parameters: dict[str, str] = {}
    segments: dict[str, dict[int, tuple[str, bool]]] = {}
    for name, quoted, bare in _PARAMETER.findall(value):
        text = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare.strip()
        match = _SEGMENT.fullmatch(name.lower())
        if match and (match[2] or match[3]):
            numbered = segments.setdefault(match[1], {})
            numbered.setdefault(int(match[2] or 0), (text, bool(match[3])))
        else:
            parameters.setdefault(name.lower(), decode_words(text))
    for name, numbered in segments.items():
        parameters[name] = _joined_segments([numbered[i] for i in sorted(numbered)])
    return main, parameters


def _joined_segments(segments: list[tuple[str, bool]]) -> str:
    charset = ""
    data: list[bytes] = []
    if segments[0][1] and segments[0][0].count("'") >= 2:
        charset, _language, text = segments[0][0].split("'", 2)
        segments = [(text, True), *segments[1:]]
    for text, encoded in segments:
        data.append(unquote_to_bytes(text) if encoded else text.encode("utf-8", "ignore"))
    return decode(b"".join(data), charset or None)


def parse_ids(headers: Headers, name: str) -> tuple[str, ...]:
    """Return the Message-IDs of a field such as References, without angle brackets, each once; of very many,
    only the first and the last ones.

    Real mail has commas between them, lacks the brackets, or has a mail address there.
    """
    text = " ".join(headers.get(name, ()))[:VALUE_MAX_LENGTH]
    found = [_bare_id(word) for word in _BRACKETED.findall(text)]
    if not any(found):
        found = [_bare_id(word) for word in re.split(r"[\s,]+", text) if "@" in word]
    ids = tuple(dict.fromkeys(word for word in found if word))
    return ids if len(ids) <= IDS_MAX else (*ids[:1], *ids[-IDS_MAX + 1 :])


def parse_message_id(headers: Headers) -> str | None:
    """Return the mail's own Message-ID, without angle brackets; None if it has none to which an answer can
    refer."""
    value = first(headers, "message-id")
    match = _BRACKETED.search(value)
    return _bare_id(match[1] if match else value) or None


def _bare_id(word: str) -> str:
    # Real mail has had a space before the @, and folding may leave one anywhere.
    bare = "".join(word.split())
    return bare if _ID.fullmatch(bare) else ""


def parse_date(value: str) -> datetime | None:
    """Return the time of a Date field in UTC; None if it is invalid. A time without a zone counts as UTC."""
    try:
        # Collapse blanks before the cut, because an attacker can add some without breaking a signature (RFC
        # 6376 section 3.4.2).
        at = parsedate_to_datetime(" ".join(value.split())[:200])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


# --- charset --------------------------------------------------------------------------------------


# Codecs that are not charsets, or whose cost or result an attacker could abuse.
_NOT_CHARSETS = {
    *("base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"),
    *("idna", "mbcs", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"),
}
# Codecs without an alias in Python's list.
_UNALIASED = ("koi8_t", "koi8_u", "cp720", "cp737", "cp856", "cp1006", "mac_croatian")
# Mail programs write each of these names, but use a larger charset that includes it.
_WIDER = {
    **{"ascii": "utf_8", "latin_1": "cp1252", "iso2022_jp": "iso2022_jp_2", "euc_kr": "cp949"},
    **{"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "big5": "big5hkscs"},
}
# Names of charsets in real mail that Python does not know.
_MAIL_NAMES = {
    **{"iso_8859_8_i": "iso8859_8", "iso_8859_8_e": "iso8859_8", "iso_8859_6_i": "iso8859_6"},
    **{"sjis": "cp932", "utf8mb4": "utf_8", "unicode_1_1_utf_7": "utf_7", "windows_874": "cp874"},
}
_CHARSETS = {
    name: _WIDER.get(codec, codec)
    for name, codec in (
        *((codec, codec) for codec in (*aliases.values(), *_UNALIASED)),
        *aliases.items(),
        *_MAIL_NAMES.items(),
    )
    if codec not in _NOT_CHARSETS
}
# All 256 bytes as browsers read windows-1252, which leaves five undefined: they become control characters.
_WINDOWS_1252 = "".join(
    bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256)
)
# Each repaired byte costs a Python call. A text with more errors is not UTF-8.
_REPAIRS_MAX = 2_000

_CHARSET_NAME = re.compile(r"[a-z0-9][a-z0-9_:.+()-]{0,39}")
_UNWANTED = re.compile("[\x00\ud800-\udfff]")


def _repair(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return codecs.charmap_decode(wrong, "strict", _WINDOWS_1252)[0], error.end


codecs.register_error("mailagent.windows1252", _repair)


def decode(data: bytes, charset: str | None) -> str:
    """Return bytes as text: by the declared charset, else as UTF-8, else as windows-1252.

    In a text that is nearly UTF-8, single wrong bytes are read as windows-1252, so that one stray byte does not
    spoil the rest. The result is clean (see `clean`).
    """
    codec = _CHARSETS.get(_normal_name(charset)) if charset else None
    if codec is not None and codec != "utf_8":
        try:
            return clean(_decode_strict(data, codec))
        except (UnicodeError, LookupError):
            pass
    try:
        return clean(data.decode("utf-8"))
    except UnicodeDecodeError:
        return clean(_decode_mixed(data))


def _decode_strict(data: bytes, codec: str) -> str:
    if codec == "cp1252":
        return codecs.charmap_decode(data, "strict", _WINDOWS_1252)[0]
    return data.decode(codec)


def _decode_mixed(data: bytes) -> str:
    if data.decode("utf-8", "replace").count("\ufffd") > _REPAIRS_MAX:
        return codecs.charmap_decode(data, "strict", _WINDOWS_1252)[0]
    return data.decode("utf-8", "mailagent.windows1252")


def _normal_name(charset: str) -> str:
    name = charset.strip(" \t\"'").partition("*")[0].lower()
    if not _CHARSET_NAME.fullmatch(name):
        return ""
    name = re.sub("[^a-z0-9]+", "_", name).strip("_")
    return re.sub(r"^cp_(?=\d)", "cp", name.removeprefix("x_"))


def clean(text: str) -> str:
    """Return `text` without byte-order marks, NUL and lone surrogates, which PostgreSQL refuses."""
    if text.isascii():
        return text.replace("\x00", "")
    return _UNWANTED.sub("", text.removeprefix("\ufeff"))
