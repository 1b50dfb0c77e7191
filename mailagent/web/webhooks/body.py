"""Read a webhook's body as bytes: completely, or raise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO

from flask import Request

# SendGrid posts at most 30 MB of mail; the rest is room for the other fields.
LARGEST_BYTES = 40 * 1024 * 1024
# A larger body waits on disk until its signature is verified.
MEMORY_BYTES = 1024 * 1024
# Storing a large mail takes several times its size in memory, so only LARGE_AT_ONCE are stored at once.
LARGE_AT_ONCE, LARGE_WAIT_SECONDS = 2, 20.0

_PIECE_BYTES = 64 * 1024
_large = threading.Semaphore(LARGE_AT_ONCE)


class NotWhole(Exception):
    """The body is incomplete or too long. The message says how much came."""


class Busy(Exception):
    """Too many large bodies are being stored."""


def read_body(request: Request, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """Return the bytes of the body, at most `largest_bytes`. Raises NotWhole."""
    return b"".join(read_pieces(request, largest_bytes))


def read_pieces(request: Request, largest_bytes: int = LARGEST_BYTES) -> Iterator[bytes]:
    """Return the bytes of the body as they come, at most `largest_bytes`. Raises NotWhole.

    Call this before anything reads `request.form`, which consumes the bytes.
    """
    request.max_content_length = largest_bytes + 1  # werkzeug cuts a chunked body there silently
    expected, length = request.content_length, 0
    try:
        while piece := request.stream.read(_PIECE_BYTES):
            length += len(piece)
            yield piece
    except Exception as problem:
        # A chunked body that ends early raises an exception of the server's.
        raise NotWhole(f"{type(problem).__name__}: {problem}") from problem
    if length > largest_bytes:
        raise NotWhole(f"more than {largest_bytes} bytes came")
    # Some servers do not raise if a body ends before its announced length.
    if expected is not None and length != expected:
        raise NotWhole(f"{length} of {expected} bytes came")


class SpooledBody:
    """A body that is being received: read `pieces` once, then `whole`."""

    def __init__(self, request: Request, file: IO[bytes]) -> None:
        self._request, self._file = request, file

    def pieces(self) -> Iterator[bytes]:
        """Return the pieces of the body as they come, and store them. Raises NotWhole."""
        for piece in read_pieces(self._request):
            self._file.write(piece)
            yield piece

    @contextmanager
    def whole(self) -> Iterator[bytes]:
        """Give all bytes of the body, after `pieces`. Raises Busy."""
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
    """Give the body of a request. It is on disk if it is larger than MEMORY_BYTES."""
    with SpooledTemporaryFile(MEMORY_BYTES) as file:
        yield SpooledBody(request, file)
