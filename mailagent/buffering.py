"""A gunicorn worker that receives requests in its event loop, so that slow clients occupy no thread.

A thread gets a request once it is complete; its body waits on disk. If a body is large or late, the app gets
the headers first, and the body is received only if the app reads it. A reverse proxy can do the same, but not
every installation has one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import time
from concurrent.futures import Future
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, NoReturn

import h11
from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import LimitRequestHeaders, NoMoreData
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.workers.gthread import ThreadWorker

from mailagent.web.webhooks.body import LARGEST_BYTES

HEAD_BYTES, HEAD_SECONDS = 64 * 1024, 10.0
# A body may take BODY_SECONDS, and a second more for each BODY_BYTES_PER_SECOND received.
BODY_SECONDS, BODY_BYTES_PER_SECOND = 15.0, 64 * 1024
# Wait this long for a body of at most this size before the app gets the headers alone.
SMALL_BYTES, SMALL_SECONDS = 64 * 1024, 0.1
# The limit for all bodies together. Above it the largest unfinished request is ended.
BUFFERED_BYTES = 256 * 1024 * 1024
# Unfinished requests per client address. There is no limit for proxies that gunicorn trusts
# (`forwarded_allow_ips`) and for addresses that have sent a signed webhook.
UNFINISHED_PER_ADDRESS = 32
SEND_SECONDS = 120.0
# Keep a refused connection open this long, so that the client reads the answer (RFC 9112, section 9.6).
LINGER_SECONDS = 2.0

_RECEIVE_BYTES = 64 * 1024
_BODY_WANTED = object()


class BodyWanted(BaseException):
    """The app reads a body that has not arrived. A BaseException, so that no view catches it."""


class _MissingBody:
    """A body that has not arrived: reading it raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def read(self, *_size: int) -> NoReturn:
        raise self._error

    readline = readlines = __iter__ = read


class PendingRequest:
    """A request that is being received. gunicorn uses it as the connection's parser."""

    def __init__(self, cfg: Any, client: Any) -> None:
        self.unreader = IterUnreader(())  # gunicorn looks here for a next request
        self.size = 0
        self.ended = False  # complete or failed: nothing more is read
        self._cfg, self._client = cfg, client
        self._began = time.monotonic()
        self._head = bytearray()
        self._request: Any = None
        self._problem: Exception | None = None
        self._framing: h11.Connection | None = None
        self._announced = 0
        self._wanted = False
        self._body = SpooledTemporaryFile(SMALL_BYTES)  # noqa: SIM115 - closed with the request

    def __next__(self) -> Any:
        """Return the request to a thread. Raises the error if its head was wrong."""
        if self._request is None:
            raise self._problem or StopIteration
        if self.finish_body():
            self._body.seek(0)
            self._request.body = self._body
        else:
            self._request.body = _MissingBody(self._problem or BodyWanted())
            self._request.must_close = True
        self._request._expected_100_continue = False  # `want_body` sends it
        return self._request

    def finish_body(self, **_limits: float) -> bool:
        """Return whether the request is complete, so that another may follow on the connection."""
        return self.ended and self._problem is None

    def close(self) -> None:
        self._body.close()

    def feed(self, data: bytes) -> None:
        """Take the next bytes; empty bytes are the end of the connection."""
        if not data:
            return self.abort()
        try:
            if self._request is None:
                data = self._feed_head(data)
            if self._framing is not None and data:
                self._framing.receive_data(data)
                self._feed_body(self._framing)
        except (h11.RemoteProtocolError, h11.LocalProtocolError):
            self.abort()
        except Exception as problem:  # noqa: BLE001 - `__next__` raises it in a thread
            self._problem, self.ended = problem, True
        return None

    def abort(self) -> None:
        """End the request. The app gets NoMoreData when it reads the body."""
        self._problem, self.ended = NoMoreData(), True

    def _feed_head(self, data: bytes) -> bytes:
        """Parse the head once it is complete. Return the bytes after it."""
        seen = max(0, len(self._head) - 3)
        self._head += data
        end = self._head.find(b"\r\n\r\n", seen) + 4
        if end < 4 and len(self._head) > HEAD_BYTES:
            raise LimitRequestHeaders("the head is too large")
        if end < 4:
            return b""
        head, rest = bytes(self._head[:end]), bytes(self._head[end:])
        self._request = Request(self._cfg, IterUnreader([head]), self._client)
        self._began = time.monotonic()
        self._frame(self._request.body.reader)
        if self.ended and rest:
            self._request.force_close()  # a pipelined request: the client must send it again
        return rest

    def _frame(self, reader: Any) -> None:
        """Let h11 parse the body, with the framing that gunicorn has read from the head."""
        chunked = isinstance(reader, ChunkedReader)
        self._announced = 0 if chunked else reader.length
        if not chunked and not self._announced:
            self.ended = True
            return
        how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {self._announced}"
        self._framing = h11.Connection(h11.SERVER)
        self._framing.receive_data(f"POST / HTTP/1.1\r\nHost: x\r\n{how}\r\n\r\n".encode())
        self._framing.next_event()

    def _feed_body(self, framing: h11.Connection) -> None:
        while isinstance(event := framing.next_event(), h11.Data):
            self._body.write(event.data)
            self.size += len(event.data)
        too_long = self.size > LARGEST_BYTES  # the app answers that
        if too_long or framing.trailing_data[0]:
            self._request.force_close()
        self.ended = too_long or isinstance(event, h11.EndOfMessage)

    def want_body(self, sock: socket.socket) -> None:
        """Receive the body, because the app reads it."""
        self._wanted = True
        self._began = time.monotonic()
        if any(name == "EXPECT" for name, _value in self._request.headers):
            with contextlib.suppress(OSError):
                sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def is_ready(self, now: float) -> bool:
        """Return whether to give the request to a thread, complete or with its head alone."""
        if self.ended or self._request is None or self._wanted:
            return self.ended
        large = max(self._announced, self.size) > SMALL_BYTES
        return large or now - self._began > SMALL_SECONDS

    def is_late(self, now: float) -> bool:
        if self._request is None:
            return now - self._began > HEAD_SECONDS
        return now - self._began > BODY_SECONDS + self.size / BODY_BYTES_PER_SECOND

    @property
    def has_head(self) -> bool:
        return self._request is not None


class BufferingWorker(ThreadWorker):  # type: ignore[misc]  # the package ships no types
    """Receives requests in the event loop and handles them in threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arriving: dict[Any, None] = {}  # connections with an unfinished request, oldest first
        self._lingering: dict[Any, float] = {}  # refused connections, and when to close them
        self._buffered = 0
        self._next_check = 0.0
        self._verified: set[str] = set()

    def verified(self, address: str) -> None:
        """Remember the address of a client that sent a signed webhook. Threads call this."""
        self._verified.add(address)

    def enqueue_req(self, conn: Any) -> None:
        """Receive a request on a new or kept-alive connection."""
        if self.cfg.is_ssl:  # not buffered: TLS belongs to a proxy
            super().enqueue_req(conn)
            return None
        if conn.parser is None and self._is_one_too_many(conn):
            return self._close(conn)
        conn.parser = PendingRequest(self.cfg, conn.client)
        conn.initialized = conn.data_ready = True
        return self._watch(conn)

    def _is_one_too_many(self, conn: Any) -> bool:
        if self.nr_conns >= self.worker_connections and self._arriving:
            self._end(next(iter(self._arriving)))
        if not isinstance(conn.client, tuple):
            return False  # a Unix socket
        address = conn.client[0]
        if address in self._verified or self._is_trusted(address):
            return False
        # Compare slices, because the address of a Unix socket is an empty string.
        unfinished = sum(each.client[:1] == (address,) for each in self._arriving)
        return bool(unfinished >= UNFINISHED_PER_ADDRESS)

    def _is_trusted(self, address: str) -> bool:
        networks = self.cfg.forwarded_allow_networks()
        everyone = "*" in self.cfg.forwarded_allow_ips
        return everyone or any(ipaddress.ip_address(address) in each for each in networks)

    def _watch(self, conn: Any) -> None:
        conn.sock.setblocking(False)
        self._arriving[conn] = None
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))
        self._receive(conn)  # most requests have arrived by now

    def _receive(self, conn: Any, _sock: Any = None) -> None:
        pending = conn.parser
        try:
            data = conn.sock.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data = b""
        if not data and not pending.has_head:
            return self._end(conn)
        before = pending.size
        pending.feed(data)
        self._buffered += pending.size - before
        if pending.is_ready(time.monotonic()):
            return self._dispatch(conn)
        if self._buffered > BUFFERED_BYTES:
            largest = max(self._arriving, key=lambda each: int(each.parser.size))
            largest.parser.abort()
            self._dispatch(largest)
        return None

    def _dispatch(self, conn: Any) -> None:
        self._unwatch(conn)
        super().enqueue_req(conn)

    def _unwatch(self, conn: Any) -> None:
        del self._arriving[conn]
        self.poller.unregister(conn.sock)

    def _end(self, conn: Any) -> None:
        self._unwatch(conn)
        self._close(conn)

    def _close(self, conn: Any) -> None:
        if conn.parser is not None:
            self._buffered -= conn.parser.size
            conn.parser.close()
        self.nr_conns -= 1
        conn.close()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for events, but not longer than until the next check of late requests."""
        super().wait_for_and_dispatch_events(
            min(timeout, SMALL_SECONDS) if self._arriving else timeout
        )

    def murder_pending(self) -> None:
        """End late requests, and give the app the head of those whose body is slow."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + SMALL_SECONDS
        for conn in list(self._arriving):
            pending = conn.parser
            if pending.is_late(now) or not (self.alive or pending.has_head):
                self._end(conn)
            elif pending.is_ready(now):
                self._dispatch(conn)
        for conn, close_at in list(self._lingering.items()):
            if now > close_at:
                self._end_lingering(conn)

    def handle(self, conn: Any) -> Any:
        """Handle a request in a thread."""
        try:
            return super().handle(conn)
        except BodyWanted:
            return _BODY_WANTED

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request. The client has SEND_SECONDS to read the answer."""
        conn.sock.settimeout(SEND_SECONDS)
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Future[Any]) -> None:
        """Continue with a connection after a thread has handled its request."""
        result = None if fs.cancelled() or fs.exception() else fs.result()
        if self.cfg.is_ssl:
            super().finish_request(conn, fs)
        elif result is _BODY_WANTED:
            conn.parser.want_body(conn.sock)
            self._watch(conn)
        elif result:
            self._buffered -= conn.parser.size
            conn.parser.close()
            super().finish_request(conn, fs)
        else:
            self._linger(conn)

    def _linger(self, conn: Any) -> None:
        """Close a connection later: a close while the client sends would reset it and lose the answer."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
        except OSError:
            return self._close(conn)
        self._lingering[conn] = time.monotonic() + LINGER_SECONDS
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._discard, conn))
        return None

    def _discard(self, conn: Any, _sock: Any = None) -> None:
        with contextlib.suppress(OSError):
            if conn.sock.recv(_RECEIVE_BYTES):
                return
        self._end_lingering(conn)

    def _end_lingering(self, conn: Any) -> None:
        del self._lingering[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)
