"""A small file that decodes to a huge picture."""

from __future__ import annotations

import struct
import zlib


def huge_png() -> bytes:
    """Return a PNG that says it has 40,000 x 40,000 pixels, in a few hundred bytes."""
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 10_000)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
