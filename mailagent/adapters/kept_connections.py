"""HTTP connections to one server that are kept for the next request, and never used for a second try.

A server may close a connection that rests just when the next request is written to it, and then nobody knows
whether it was read. So only one that rested for a moment, and says nothing, is used again; whatever happens to
it after the first byte is the caller's to judge.

Whatever a server does, whoever asks it goes on in time, and in its own thread: no write or read is given more
than what is left of the time for all of them (decision 47).
"""

from __future__ import annotations

import io
import select
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    parse_headers,
)
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult
from urllib.request import getproxies, proxy_bypass

from mailagent.adapters.deadline import SHARE, within

if TYPE_CHECKING:
    import socket

_PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds: `connect` for a connection, `read` for each piece of an answer. `rest`: for
    how long a connection is kept that nobody uses, and `kept`: how many of those."""

    connect: float
    read: float
    rest: float
    kept: int

    @property
    def whole(self) -> float:
        """For a request and all of its answer."""
        return self.read * SHARE


class NotConnected(Exception):
    """There was no connection, so nothing was asked. Its cause, an OSError, says why."""


class NotWritten(Exception):
    """The connection was lost before the request was written to its end. Its cause is an OSError."""


class NotInTime(TimeoutError):
    """The answer did not end within the time for all of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, whatever its status."""

    status: int
    reason: str
    headers: HTTPMessage
    body: bytes


def is_proxied(url: SplitResult, *also: str) -> bool:
    """Return whether the environment names a proxy for a URL, by its scheme or by one of `also`: then a client
    has to ask that knows how."""
    return bool({url.scheme, *also} & getproxies().keys()) and not proxy_bypass(url.netloc)


class KeptConnections:
    """Asks one server. Threads may share it."""

    def __init__(self, host: str, context: ssl.SSLContext | None, patience: Patience) -> None:
        """`host`: with its port, if not the usual one. `context`: for HTTPS."""
        self._host = host
        self._context = context
        self._patience = patience
        self._lock = threading.Lock()
        # The one that rests for the shortest time is the last.
        self._resting: list[tuple[float, HTTPConnection]] = []

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        until: float | None = None,
    ) -> Answer:
        """Send a request once, and return the whole answer. `target` is what stands behind the host; `until`,
        by `time.monotonic`, when the answer must have ended, if that is told by somebody else.

        Raises NotConnected, NotWritten, NotInTime, or OSError or HTTPException for an answer that was lost.
        """
        until = until or time.monotonic() + self._patience.whole
        connection = self._take() or self._connect(until)
        try:
            answer = self._exchange(connection, until, method, target, headers, body)
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return answer

    def _exchange(
        self,
        connection: HTTPConnection,
        until: float,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        connection.response_class = partial(_Response, until, self._patience.read)  # type: ignore[assignment]  # it is called, and nothing else
        connection.sock.settimeout(_left(until, self._patience.read))
        try:
            connection.request(method, target, body, headers)
        except ConnectionError as problem:
            return _hear_refusal(connection, problem)
        except OSError as problem:
            raise NotWritten from problem
        return _read(connection)

    def _take(self) -> HTTPConnection | None:
        with self._lock:
            while self._resting:
                since, connection = self._resting.pop()
                if not self._is_old(since) and _is_silent(connection):
                    return connection
                connection.close()
        return None

    def _connect(self, until: float) -> HTTPConnection:
        seconds = self._patience.connect
        connection = (
            HTTPConnection(self._host, timeout=seconds)
            if self._context is None
            else HTTPSConnection(self._host, timeout=seconds, context=self._context)
        )
        connection.auto_open = 0  # else one that was lost would be opened anew, for a second try
        try:
            # Whoever waits for a host's address cannot be stopped, so somebody else does.
            within(_left(until, self._patience.whole), connection.connect)
        except OSError as problem:
            # Not closed: it may be connecting still, elsewhere, and ends by itself.
            raise NotConnected from problem
        return connection

    def _keep(self, connection: HTTPConnection) -> None:
        if connection.sock is None:
            return  # the server has said that it closes it
        with self._lock:
            self._resting.append((time.monotonic(), connection))
            while self._resting and (
                len(self._resting) > self._patience.kept or self._is_old(self._resting[0][0])
            ):
                self._resting.pop(0)[1].close()

    def _is_old(self, since: float) -> bool:
        return time.monotonic() - since >= self._patience.rest


class _Response(HTTPResponse):
    """An answer that is read until a time; no read of it waits for longer than `most` seconds."""

    def __init__(
        self, until: float, most: float, sock: socket.socket, *args: Any, **options: Any
    ) -> None:
        super().__init__(cast("socket.socket", _ReadUntil(until, most, sock)), *args, **options)

    def _read_status(self) -> tuple[str, int, str]:
        # RFC 9110 section 15.2: any number of these may come first. http.client passes over 100 only, and would
        # take another one for the answer, and the answer for that to the next request.
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]  # what `begin` calls
            if not 100 <= status < 200 or status == HTTPStatus.SWITCHING_PROTOCOLS:
                return version, status, reason
            parse_headers(self.fp)


@dataclass(frozen=True, slots=True)
class _ReadUntil:
    """What an answer needs of its socket: a file."""

    until: float
    most: float
    sock: socket.socket

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self, self.sock.makefile("rb", buffering=0)))


class _Reads(io.RawIOBase):
    def __init__(self, limits: _ReadUntil, raw: socket.SocketIO) -> None:
        self._limits, self._raw = limits, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        limits = self._limits
        limits.sock.settimeout(_left(limits.until, limits.most))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            _left(limits.until, limits.most)  # was it all the time that there was?
            raise

    def close(self) -> None:
        self._raw.close()
        super().close()


def _hear_refusal(connection: HTTPConnection, lost: ConnectionError) -> Answer:
    """Return what a server said that closed before the whole request was written: it may refuse what it has not
    read to its end. It cannot have taken it; then nothing was said, as far as we know."""
    try:
        answer = _read(connection)
    except (OSError, HTTPException):
        raise NotWritten from lost
    connection.close()
    if answer.status < 300:
        raise NotWritten from lost
    return answer


def _read(connection: HTTPConnection) -> Answer:
    """Return the whole answer. Raises HTTPException for one that makes no sense."""
    try:
        with closing(connection.getresponse()) as response:
            if response.status < 200:
                raise BadStatusLine(f"{response.status} is no answer")
            # In pieces: for all of it at once, as much memory is taken as the server says that there will be.
            body = b"".join(iter(partial(response.read, _PIECE_BYTES), b""))
            if response.length:
                raise IncompleteRead(body, response.length)
            return Answer(response.status, response.reason, response.headers, body)
    except (ValueError, OverflowError) as problem:
        raise HTTPException("an answer that makes no sense") from problem


def _left(until: float, most: float) -> float:
    """Return for how long the next write or read may wait, in seconds. Raises NotInTime."""
    left = until - time.monotonic()
    if left <= 0:
        raise NotInTime("the time for the whole answer is over")
    return min(left, most)


def _is_silent(connection: HTTPConnection) -> bool:
    """Return whether the server has neither closed the connection nor said anything that nobody asked."""
    if isinstance(connection.sock, ssl.SSLSocket) and connection.sock.pending():
        return False
    looks = select.poll()
    looks.register(connection.sock, select.POLLIN | select.POLLPRI)
    return not looks.poll(0)
