"""Finds the parts of a multipart body (RFC 2046 section 5.1.1), of requests and of mails.

It returns positions, so that a 30 MB mail is never copied or split into lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

BOUNDARY_MAX_LENGTH = 200  # RFC 2046 says 70; a few programs write more
_CRLF = b"\r\n"
_PADDING_MAX = 200  # white space that may follow a boundary on its line


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of bytes of some source: `source[start:end]`."""

    start: int
    end: int

    def bytes_of(self, source: bytes, max_bytes: int | None = None) -> bytes:
        """Return this stretch, or its first `max_bytes`."""
        end = self.end if max_bytes is None else min(self.end, self.start + max_bytes)
        return source[self.start : end]

    def view_of(self, source: bytes) -> memoryview:
        """Return this stretch without copying it."""
        return memoryview(source)[self.start : self.end]

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Split:
    """The parts found. `closed`: the closing boundary was there. `after_close`: more parts came after it."""

    parts: tuple[Span, ...]
    closed: bool = False
    after_close: bool = False
    cut: bool = False  # there are more than `parts_max`; the last part has the rest


@dataclass(frozen=True, slots=True)
class _Delimiter:
    start: int  # with the line end before it, so this is the end of the part before
    end: int
    closes: bool


def split_parts(
    source: bytes, whole: Span, boundary: bytes, parts_max: int, *, strict: bool = False
) -> Split:
    """Find the parts between the delimiter lines of `boundary`.

    `strict`: if the first delimiter line is between CRLFs, all must be.
    """
    parts: list[Span] = []
    opened: int | None = None
    closed = after_close = cut = False
    for delimiter in _delimiters(source, whole, boundary, strict):
        if len(parts) >= parts_max:
            cut = True
            break
        if opened is not None:
            parts.append(Span(opened, max(opened, delimiter.start)))
        after_close = after_close or closed
        closed = closed or delimiter.closes
        opened = None if delimiter.closes else delimiter.end
    if opened is not None:
        parts.append(Span(opened, whole.end))
    return Split(tuple(parts), closed, after_close, cut)


def _delimiters(source: bytes, whole: Span, boundary: bytes, strict: bool) -> Iterator[_Delimiter]:
    mark = b"--" + boundary
    # A mail may have a million lines that only begin like a delimiter.
    line = re.compile(rb"\n%b(?:--)?[ \t\r\v\f]{0,%d}(?=\n|\Z)" % (re.escape(mark), _PADDING_MAX))
    at = whole.start if source.startswith(mark, whole.start, whole.end) else -1
    if at < 0:
        at = _next_line(line, source, whole.start, whole.end)
    crlf: bool | None = None
    while at >= 0:
        delimiter = _delimiter_at(source, whole, at, len(mark))
        if delimiter is not None:
            if crlf is None:
                crlf = strict and source[delimiter.end - 2 : delimiter.end] == _CRLF
            if not crlf or at == whole.start or source[delimiter.start : at] == _CRLF:
                yield delimiter
        at = _next_line(line, source, at, whole.end)


def _next_line(line: re.Pattern[bytes], source: bytes, at: int, end: int) -> int:
    found = line.search(source, at, end)
    return found.start() + 1 if found else -1


def _delimiter_at(source: bytes, whole: Span, at: int, length: int) -> _Delimiter | None:
    start = at
    if start > whole.start:
        start -= 1
    if start > whole.start and source[start - 1] == 0x0D:
        start -= 1
    rest = at + length
    closes = source.startswith(b"--", rest, whole.end)
    furthest = min(whole.end, rest + _PADDING_MAX)
    line_end = source.find(b"\n", rest, furthest)
    end = furthest if line_end < 0 else line_end + 1
    padding = source[rest + 2 * closes : end]
    if padding.strip() or (line_end < 0 and end < whole.end):
        return None
    return _Delimiter(start, end, closes)
