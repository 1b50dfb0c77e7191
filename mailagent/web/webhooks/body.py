"""A webhook's body as bytes: whole, or an exception. What is in it belongs to the adapters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO

from flask import Request

# SendGrid posts at most 30 MB of mail; the rest is room for the other fields.
LARGEST_BYTES = 40 * 1024 * 1024
# A body above this waits on disk until its signature is known to be good.
MEMORY_BYTES = 1024 * 1024
# Storing a large mail takes several times its size of memory, so that only so many are stored at once.
LARGE_AT_ONCE, LARGE_WAIT_SECONDS = 2, 20.0

_PIECE_BYTES = 64 * 1024
_large = threading.Semaphore(LARGE_AT_ONCE)


class NotWhole(Exception):
    """The body did not arrive whole, or is longer than we take; the text says how much of it came."""


class Busy(Exception):
    """Too many large bodies are stored just now."""


def read_body(request: Request, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """Return the very bytes of the body, at most `largest_bytes`. Raises NotWhole."""
    return b"".join(read_pieces(request, largest_bytes))


def read_pieces(request: Request, largest_bytes: int = LARGEST_BYTES) -> Iterator[bytes]:
    """Return the very bytes of the body as they come, at most `largest_bytes`. Raises NotWhole.

    To be called before anything touches `request.form`: afterwards the bytes are gone, and with them
    what was signed. Forms are never used here, so their 500 kB limit does not apply either.
    """
    request.max_content_length = largest_bytes + 1  # a longer chunked body is cut there, silently
    expected, length = request.content_length, 0
    try:
        while piece := request.stream.read(_PIECE_BYTES):
            length += len(piece)
            yield piece
    except Exception as problem:
        # A chunked body that ends early raises whatever the server calls that.
        raise NotWhole(f"{type(problem).__name__}: {problem}") from problem
    if length > largest_bytes:
        raise NotWhole(f"more than {largest_bytes} bytes came")
    # A server may show a body of announced length that breaks off as one that ended.
    if expected is not None and length != expected:
        raise NotWhole(f"{length} of {expected} bytes came")


class SpooledBody:
    """A body on its way into memory: `pieces` once, as they come, then `whole`."""

    def __init__(self, request: Request, file: IO[bytes]) -> None:
        self._request, self._file = request, file

    def pieces(self) -> Iterator[bytes]:
        """Return the body as it comes, and keep it. Raises NotWhole."""
        for piece in read_pieces(self._request):
            self._file.write(piece)
            yield piece

    @contextmanager
    def whole(self) -> Iterator[bytes]:
        """Give the bytes of a body whose pieces have come. Raises Busy."""
        is_large = self._file.tell() > MEMORY_BYTES
        if is_large and not _large.acquire(timeout=LARGE_WAIT_SECONDS):
            raise Busy(f"{LARGE_AT_ONCE} large requests are being stored")
        try:
            self._file.seek(0)
            yield self._file.read()
        finally:
            if is_large:
                _large.release()


@contextmanager
def spooled(request: Request) -> Iterator[SpooledBody]:
    """Give the body of a request, of which at most MEMORY_BYTES are in memory and the rest on disk."""
    with SpooledTemporaryFile(MEMORY_BYTES) as file:
        yield SpooledBody(request, file)
