"""Writes `winmail.dat` files as Outlook does, for tests (MS-OXTNEF, MS-OXRTFCP)."""

from __future__ import annotations

import struct

from mailagent.adapters.mime.tnef import SIGNATURE

_PLAIN, _RTF, _HTML = 0x1000, 0x1009, 0x1013


def winmail(*attributes: bytes) -> bytes:
    """Return a file with these attributes."""
    return SIGNATURE + b"\x01\x00" + b"".join(attributes)


def attribute(number: int, value: bytes, kind: int = 0x0006) -> bytes:
    head = struct.pack("<BHHI", 1, number, kind, len(value))
    return head + value + struct.pack("<H", sum(value) & 0xFFFF)


def body(text: str) -> bytes:
    """Return the plain text of a mail as older versions of Outlook keep it."""
    return attribute(0x800C, text.encode("cp1252") + b"\0", 0x0002)


def properties(*entries: bytes) -> bytes:
    return attribute(0x9003, struct.pack("<I", len(entries)) + b"".join(entries))


def unicode_text(text: str) -> bytes:
    return _variable(0x1F, _PLAIN, text.encode("utf-16-le") + b"\0\0")


def html(data: bytes) -> bytes:
    return _variable(0x102, _HTML, data)


def compressed_rtf(rtf: bytes) -> bytes:
    """Return RTF as a compressed stream that has only literals."""
    pieces = [rtf[at : at + 8] for at in range(0, len(rtf), 8)]
    return _stream(b"".join(b"\0" + piece for piece in pieces), len(rtf))


def rtf_stream(data: bytes, length: int) -> bytes:
    """Return a compressed stream of these bytes, as a property."""
    return _stream(data, length)


def number(name: int, value: int) -> bytes:
    """Return a property that holds no text."""
    return struct.pack("<HHI", 0x03, name, value)


def named(name: str, value: str) -> bytes:
    """Return a property with a name of its own, which a reader has to pass over."""
    text = name.encode("utf-16-le")
    head = struct.pack("<HH16sII", 0x1F, 0x8001, bytes(16), 1, len(text))
    padded = text + bytes(-len(text) % 4)
    data = value.encode("utf-16-le")
    return head + padded + struct.pack("<II", 1, len(data)) + data + bytes(-len(data) % 4)


def _stream(data: bytes, length: int) -> bytes:
    return _variable(0x102, _RTF, struct.pack("<II4sI", len(data) + 12, length, b"LZFu", 0) + data)


def _variable(kind: int, name: int, value: bytes) -> bytes:
    head = struct.pack("<HHII", kind, name, 1, len(value))
    return head + value + bytes(-len(value) % 4)
