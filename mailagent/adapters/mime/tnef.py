"""The text inside a `winmail.dat`, the form in which Outlook wraps a whole mail (MS-OXTNEF).

Only the text is read. The kept libraries are under the LGPL or take quadratic time on hostile input.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

SIGNATURE = b"\x78\x9f\x3e\x22"
TNEF_MAX_BYTES = 2_000_000
TEXT_MAX_BYTES = 400_000

_BODY, _PROPERTIES = 0x800C, 0x9003
_PLAIN, _RTF, _HTML = 0x1000, 0x1009, 0x1013
_PROPERTIES_MAX = 2_000
_FIXED_BYTES = {0x02: 4, 0x03: 4, 0x04: 4, 0x05: 8, 0x06: 8, 0x07: 8, 0x0A: 4, 0x0B: 4, 0x14: 8}
_FIXED_BYTES |= {0x40: 8, 0x48: 16}
_STRING, _UNICODE, _BINARY, _OBJECT = 0x1E, 0x1F, 0x102, 0x0D

# The dictionary that every compressed stream starts with (MS-OXRTFCP section 2.1.2.1).
_LZFU_START = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_LZFU_WINDOW = 4096

_RTF_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})? ?|((?:\\'[0-9a-f]{2}){1,1000})|\\(.)|([{}])|([^\\{}\r\n]+)",
    re.IGNORECASE,
)
_RTF_BREAKS = {b"par": "\n", b"line": "\n", b"row": "\n", b"tab": "\t", b"cell": "\t"}
_RTF_SIGNS = {b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"bullet": "•"}
_RTF_SIGNS |= {b"ldblquote": "“", b"rdblquote": "”"}
_RTF_WORDS = _RTF_BREAKS | _RTF_SIGNS
_RTF_NO_TEXT = {
    b"fonttbl",
    b"colortbl",
    b"stylesheet",
    b"info",
    b"pict",
    b"object",
    b"header",
    b"footer",
}


@dataclass(frozen=True, slots=True)
class TnefText:
    """The text of a wrapped mail: plain, or HTML where it has only that. Both may be empty."""

    plain: str = ""
    html: bytes = b""


def read_tnef(data: bytes) -> TnefText:
    """Return the text in a `winmail.dat`. Never raises; a broken one gives what was read before."""
    if not data.startswith(SIGNATURE):
        return TnefText()
    found: dict[int, bytes | str] = {}
    try:
        for attribute, value in _attributes(data[:TNEF_MAX_BYTES]):
            if attribute == _BODY:
                found.setdefault(_PLAIN, _single_byte(value))
            elif attribute == _PROPERTIES:
                found |= dict(_properties(value))
    except (struct.error, IndexError):
        pass  # cut off or broken: what came before it counts
    plain, html, rtf = found.get(_PLAIN), found.get(_HTML), found.get(_RTF)
    if isinstance(plain, str) and plain.strip():
        return TnefText(plain=plain.replace("\r\n", "\n"))
    if isinstance(html, bytes) and html.strip():
        return TnefText(html=html)
    return _rtf_text(_decompress(rtf)) if isinstance(rtf, bytes) else TnefText()


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the id and the value of each attribute (MS-OXTNEF section 2.1.3)."""
    at = len(SIGNATURE) + 2
    while at + 9 <= len(data):
        _level, attribute, _type, length = struct.unpack_from("<BHHI", data, at)
        yield attribute, data[at + 9 : at + 9 + length]
        at += 9 + length + 2  # a checksum follows


def _properties(data: bytes) -> Iterator[tuple[int, bytes | str]]:
    """Give the properties that hold text (MS-OXTNEF section 2.1.3.4)."""
    (count,) = struct.unpack_from("<I", data)
    at = 4
    for _ in range(min(count, _PROPERTIES_MAX)):
        kind, name = struct.unpack_from("<HH", data, at)
        at += 4
        if name >= 0x8000:
            at = _after_name(data, at)
        many = bool(kind & 0x1000) or (kind & 0xFFF) in {_STRING, _UNICODE, _BINARY, _OBJECT}
        values = struct.unpack_from("<I", data, at)[0] if many else 1
        at += 4 if many else 0
        for _ in range(min(values, _PROPERTIES_MAX)):
            start, length = _extent(data, at, kind & 0xFFF)
            if name in {_PLAIN, _HTML, _RTF}:
                yield name, _value(kind & 0xFFF, data[start : start + length])
            at = start + length + -length % 4


def _after_name(data: bytes, at: int) -> int:
    (by_string,) = struct.unpack_from("<I", data, at + 16)
    if not by_string:
        return at + 24
    (length,) = struct.unpack_from("<I", data, at + 20)
    return int(at + 24 + length + -length % 4)


def _extent(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind in _FIXED_BYTES:
        return at, _FIXED_BYTES[kind]
    (length,) = struct.unpack_from("<I", data, at)
    return at + 4, int(length)


def _value(kind: int, value: bytes) -> bytes | str:
    if kind == _UNICODE:
        return value.decode("utf-16-le", "replace").rstrip("\0")
    return _single_byte(value) if kind == _STRING else value


def _single_byte(value: bytes) -> str:
    return value.rstrip(b"\0").decode("cp1252", "replace")


def _decompress(data: bytes) -> bytes:
    """Return the RTF in a compressed stream, at most `TEXT_MAX_BYTES` of it (MS-OXRTFCP section 2.2)."""
    if data[8:12] == b"MELA":
        return data[16 : 16 + TEXT_MAX_BYTES]
    if data[8:12] != b"LZFu":
        return b""
    window = bytearray(_LZFU_START.ljust(_LZFU_WINDOW, b"\0"))
    write, at, out = len(_LZFU_START), 16, bytearray()
    while at < len(data) and len(out) < TEXT_MAX_BYTES:
        control, at = data[at], at + 1
        for bit in range(8):
            if control >> bit & 1:
                token = int.from_bytes(data[at : at + 2], "big")
                at += 2
                if at > len(data) or token >> 4 == write:  # the end
                    return bytes(out)
                piece = range(token >> 4, (token >> 4) + (token & 0xF) + 2)
            else:
                if at >= len(data):
                    return bytes(out)
                window[write] = data[at]
                at, piece = at + 1, range(write, write + 1)
            for read in piece:
                window[write] = window[read % _LZFU_WINDOW]
                out.append(window[write])
                write = (write + 1) % _LZFU_WINDOW
    return bytes(out)


def _rtf_text(rtf: bytes) -> TnefText:
    """Return what RTF says. Outlook keeps HTML in it: in `htmltag` groups, with the words between them."""
    reader = _RtfReader(is_html=b"\\fromhtml" in rtf[:1_000])
    for match in _RTF_TOKEN.finditer(rtf):
        reader.read(match)
    # A sign beyond the first 65,536 is written as two halves.
    text = "".join(reader.out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return (
        TnefText(html=text.encode("utf-8", "replace")) if reader.is_html else TnefText(plain=text)
    )


class _RtfReader:
    """What one pass over the tokens of an RTF text collects."""

    def __init__(self, is_html: bool) -> None:
        self.is_html = is_html
        self.out: list[str] = []
        self._silent = False
        self._outer: list[bool] = []
        self._only_rtf = False
        self._skip = 0
        self._charset = "cp1252"

    def read(self, match: re.Match[bytes]) -> None:
        word, number, code, sign, brace, text = match.groups()
        if brace == b"{":
            self._outer.append(self._silent)
        elif brace == b"}":
            self._silent = self._outer.pop() if self._outer else False
        elif word is not None:
            self._control(word, int(number) if number else None)
        elif sign == b"*":
            self._silent = True  # a group that a reader may not know; `htmltag` takes it back
        elif sign is not None:
            self._say({b"~": "\xa0", b"_": "-", b"-": ""}.get(sign, self._decode(sign)))
        elif code is not None:
            self._say(self._decode(bytes.fromhex(code.decode("ascii").replace("\\'", ""))))
        else:
            self._say(self._decode(text))

    def _control(self, word: bytes, number: int | None) -> None:
        match word:
            case b"htmltag":
                self._silent = False
            case b"htmlrtf":
                self._only_rtf = number != 0
            case b"ansicpg":
                self._charset = f"cp{number}"
            case b"u" if number is not None:
                self._say(chr(number % 0x10000))
                self._skip = 1  # the stand-in for readers without Unicode
            case _ if word in _RTF_NO_TEXT:
                self._silent = True
            case _ if word in _RTF_WORDS:
                self._say(_RTF_WORDS[word])

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode(self._charset, "replace")
        except LookupError:
            return data.decode("cp1252", "replace")

    def _say(self, text: str) -> None:
        text, self._skip = text[self._skip :], 0
        if not self._silent and not (self.is_html and self._only_rtf):
            self.out.append(text)
