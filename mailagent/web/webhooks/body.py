"""Reads the bytes of a webhook's body, all of them, and answers so that the sender retries what we did not
store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from flask import Request, Response

logger = logging.getLogger(__name__)

# A mail provider posts at most 30 MB of mail; the rest is room for the other fields.
LARGEST_BYTES = 40 * 1024 * 1024
# A larger body waits on disk until its signature is verified.
MEMORY_BYTES = 1024 * 1024
# Storing a large mail takes several times its size in memory, so only LARGE_AT_ONCE are stored at once.
LARGE_AT_ONCE, LARGE_WAIT_SECONDS = 2, 20.0

_PIECE_BYTES = 64 * 1024
_large = threading.Semaphore(LARGE_AT_ONCE)


class NotWhole(Exception):
    """The body is incomplete or too long. The text says how many bytes came."""


class Busy(Exception):
    """Too many large bodies are being stored."""


class HttpRefusal(Exception):
    """The request is refused with this response."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.words, self.status = words, status


def answer(webhook: str, title: str, receive: Callable[[], str]) -> Response:
    """Return the response to a webhook. `receive` stores the request and returns the text of the 200; it may
    raise HttpRefusal.

    After a failure of ours the response is 503, so that the provider (`title`, for the log) sends the request
    again.
    """
    words, status = "the request could not be stored; send it again\n", 503
    try:
        words, status = receive(), 200
    except HttpRefusal as refusal:
        words, status = refusal.words, refusal.status
    except NotWhole as problem:
        logger.error("webhook=%s event=not_whole: answered 503: %s", webhook, problem)
        words = "the request did not arrive whole; send it again\n"
    except Exception:
        logger.exception(
            "webhook=%s event=not_stored: answered 503; %s will send it again", webhook, title
        )
    return Response(words, status, mimetype="text/plain")


def read_pieces(request: Request, largest_bytes: int = LARGEST_BYTES) -> Iterator[bytes]:
    """Yield the bytes of the body as they come, at most `largest_bytes`. Raises NotWhole.

    Call this before anything reads `request.form`, which consumes the bytes.
    """
    request.max_content_length = largest_bytes + 1  # werkzeug cuts a chunked body there silently
    expected, length = request.content_length, 0
    try:
        while piece := request.stream.read(_PIECE_BYTES):
            length += len(piece)
            yield piece
    except Exception as problem:
        # If a chunked body ends early, the server raises an exception of its own.
        raise NotWhole(f"{type(problem).__name__}: {problem}") from problem
    if length > largest_bytes:
        raise NotWhole(f"more than {largest_bytes} bytes came")
    # Some servers do not raise if a body ends before its announced length.
    if expected is not None and length != expected:
        raise NotWhole(f"{length} of {expected} bytes came")


def copied(pieces: Iterator[bytes], file: IO[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a body as they come, and write each to `file`."""
    for piece in pieces:
        file.write(piece)
        yield piece


@contextmanager
def whole(file: IO[bytes]) -> Iterator[bytes]:
    """Yield all bytes of a body that was written to `file`. Raises Busy."""
    is_large = file.tell() > MEMORY_BYTES
    if is_large and not _large.acquire(timeout=LARGE_WAIT_SECONDS):
        raise Busy(f"{LARGE_AT_ONCE} large requests are being stored")
    try:
        file.seek(0)
        yield file.read()
    finally:
        if is_large:
            _large.release()
