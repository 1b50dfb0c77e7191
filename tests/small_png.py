"""A picture of text, written smaller: with a palette, and without the filters that suit photographs."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PIXEL = 3  # bytes: 8-bit RGB, as browsers take pictures
_COLOURS = 256

Colour = tuple[int, int, int]


def with_palette(png: bytes) -> bytes:
    """Return an RGB picture in its 256 most frequent colours (PNG specification, sections 9 and 11).

    Pages have few colours but for the edges of letters, where nobody sees the difference. Raises
    ValueError for a picture of another kind.
    """
    chunks = dict[bytes, bytes]()
    for name, body in _chunks(png):
        chunks[name] = chunks.get(name, b"") + body
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    if (depth, kind) != (8, 2):
        raise ValueError("is no 8-bit RGB picture")
    lines = list(_unfiltered_lines(zlib.decompress(chunks[b"IDAT"]), width * _PIXEL))
    counted = Counter(pixel for line in lines for pixel in _pixels(line))
    palette = [colour for colour, _ in counted.most_common(_COLOURS)]
    numbers = {colour: _nearest(palette, colour) for colour in counted}
    rows = (b"\0" + bytes(map(numbers.__getitem__, _pixels(line))) for line in lines)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", b"".join(map(bytes, palette))),
            _chunk(b"IDAT", zlib.compress(b"".join(rows), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _pixels(line: bytes) -> Iterator[Colour]:
    values = iter(line)
    return zip(values, values, values, strict=True)


def _nearest(palette: Sequence[Colour], colour: Colour) -> int:
    """Return the number of the colour of a palette that is most like another."""
    return min(range(len(palette)), key=lambda number: _distance(palette[number], colour))


def _distance(one: Colour, other: Colour) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _unfiltered_lines(filtered: bytes, size: int) -> Iterator[bytes]:
    before = bytes(size)
    for start in range(0, len(filtered), size + 1):
        line = bytearray(filtered[start + 1 : start + 1 + size])
        kind = filtered[start]
        for at, value in enumerate(line):
            left = line[at - _PIXEL] if at >= _PIXEL else 0
            corner = before[at - _PIXEL] if at >= _PIXEL else 0
            line[at] = (value + _guess(kind, left, before[at], corner)) & 255
        before = bytes(line)
        yield before


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    """Return what one byte was expected to be, by the filter of its line."""
    if kind == 4:
        by = {each: abs(left + above - corner - each) for each in (corner, above, left)}
        return min((left, above, corner), key=lambda each: by[each])
    return (0, left, above, (left + above) // 2)[kind]


def huge_png() -> bytes:
    """Return a PNG that says it has 40,000 x 40,000 pixels, in a few hundred bytes."""
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 10_000)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
