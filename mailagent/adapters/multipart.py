"""Where the parts of a multipart body lie (RFC 2046 section 5.1.1), for requests and mails alike.

Only positions: a 30 MB mail is never copied or split into lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BOUNDARY_MAX_LENGTH = 200  # RFC 2046 says 70; a few programs write more
_LINE_ENDS = b"\r\n"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of bytes of some source: `source[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Split:
    """The parts found. `closed`: the end mark was there; `after_close`: more parts came after it."""

    parts: tuple[Span, ...]
    closed: bool = False
    after_close: bool = False
    cut: bool = False  # more than `parts_max`: the last part holds the rest


@dataclass(frozen=True, slots=True)
class _Delimiter:
    start: int  # of the line end that belongs to it, so: the end of the part before
    end: int
    closes: bool


def split_parts(source: bytes, whole: Span, boundary: bytes, parts_max: int) -> Split:
    """Find the parts between the delimiter lines of `boundary`.

    If the first delimiter line ends in CRLF, all must: SendGrid frames its requests so and sends
    mail with bare LF, hence a mail that contains such a line does not end its own field.
    """
    parts: list[Span] = []
    opened: int | None = None
    closed = after_close = cut = False
    for delimiter in _delimiters(source, whole, boundary):
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


def _delimiters(source: bytes, whole: Span, boundary: bytes) -> Iterator[_Delimiter]:
    mark = b"--" + boundary
    strict: bool | None = None
    at = source.find(mark, whole.start, whole.end)
    while at >= 0:
        delimiter = _delimiter_at(source, whole, at, len(mark))
        if delimiter is not None:
            crlf = source[delimiter.end - 2 : delimiter.end] == _LINE_ENDS
            strict = crlf if strict is None else strict
            if not strict or delimiter.start + 2 == at or at == whole.start:
                yield delimiter
        at = source.find(mark, at + len(mark), whole.end)


def _delimiter_at(source: bytes, whole: Span, at: int, length: int) -> _Delimiter | None:
    if at > whole.start and source[at - 1] not in _LINE_ENDS:
        return None
    start = at
    if start > whole.start and source[start - 1] == 0x0A:
        start -= 1
    if start > whole.start and source[start - 1] == 0x0D:
        start -= 1
    rest = at + length
    closes = source.startswith(b"--", rest, whole.end)
    line_end = source.find(b"\n", rest, whole.end)
    end = whole.end if line_end < 0 else line_end + 1
    after = source[rest + 2 * closes : min(end, rest + 200)]
    return None if after.strip() else _Delimiter(start, end, closes)
