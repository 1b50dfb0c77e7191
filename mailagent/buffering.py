"""gunicorn's threaded worker, which gives a thread only to requests that are there.

A request is collected in the worker's event loop, its body on disk, so that slow clients cost no thread. The
app is asked first, with the head alone, where a body is large or late: a request that it refuses by its
headers ends there. Reverse proxies do the same, but not every installation has one.
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
# A body has this long, and a second more for each so many bytes of it that have come.
BODY_SECONDS, BODY_BYTES_PER_SECOND = 15.0, 64 * 1024
# A body up to this size is waited for a moment before the app is asked whether it wants it.
SMALL_BYTES, SMALL_SECONDS = 64 * 1024, 0.1
# Of all requests together. Beyond it the largest unfinished one ends.
BUFFERED_BYTES = 256 * 1024 * 1024
# Unfinished requests from one address. Not for proxies that gunicorn trusts (`forwarded_allow_ips`), nor for an
# address from which signed mail has come.
UNFINISHED_PER_ADDRESS = 32
SEND_SECONDS = 120.0
# A refused client may go on sending this long, so that it reads the answer and no reset (RFC 9112, 9.6).
LINGER_SECONDS = 2.0

_RECEIVE_BYTES = 64 * 1024
_WANTS_BODY = object()


class BodyWanted(BaseException):
    """The app reads a body that is not there yet. No Exception, so that no view takes it for a failure."""


class _NoBody:
    """Stands for a body that is not there: reading it raises."""

    def __init__(self, why: BaseException) -> None:
        self._why = why

    def read(self, *_size: int) -> NoReturn:
        raise self._why

    readline = readlines = __iter__ = read


class Arrival:
    """A request on its way in. It plays gunicorn's parser of the connection, which has nothing to wait for."""

    def __init__(self, cfg: Any, client: Any) -> None:
        self.unreader = IterUnreader(())  # what gunicorn asks for the start of a next request
        self.size = 0
        self.ends = False  # no more is read of it: it is whole, or what is wrong is known
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
        """Return the request, for a thread; raise what makes it none."""
        if self._request is None:
            raise self._problem or StopIteration
        whole = self.finish_body()
        if whole:
            self._body.seek(0)
        self._request.body = self._body if whole else _NoBody(self._problem or BodyWanted())
        self._request.must_close = self._request.must_close or not whole
        self._request._expected_100_continue = False  # said only once the body is wanted
        return self._request

    def finish_body(self, **_limits: float) -> bool:
        """Return whether nothing is left to read, so that another request may follow."""
        return self.ends and self._problem is None

    def close(self) -> None:
        self._body.close()

    def feed(self, data: bytes) -> None:
        """Take what came next; nothing is the end of the connection."""
        if not data:
            return self.break_off()
        try:
            if self._request is None:
                data = self._feed_head(data)
            if self._framing is not None and data:
                self._framing.receive_data(data)
                self._feed_body(self._framing)
        except (h11.RemoteProtocolError, h11.LocalProtocolError):
            self.break_off()
        except Exception as problem:  # noqa: BLE001 - the thread raises it, and gunicorn answers
            self._problem, self.ends = problem, True
        return None

    def break_off(self) -> None:
        """Give up: the app hears of it where it reads the body."""
        self._problem, self.ends = NoMoreData(), True

    def _feed_head(self, data: bytes) -> bytes:
        """Return what follows the head in `data`."""
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
        if self.ends and rest:
            self._request.force_close()  # a client that does not wait for its answer may send it again
        return rest

    def _frame(self, reader: Any) -> None:
        """Have h11 cut the body out, framed as gunicorn understands the head."""
        chunked = isinstance(reader, ChunkedReader)
        self._announced = 0 if chunked else reader.length
        if not chunked and not self._announced:
            self.ends = True
            return
        how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {self._announced}"
        self._framing = h11.Connection(h11.SERVER)
        self._framing.receive_data(f"POST / HTTP/1.1\r\nHost: x\r\n{how}\r\n\r\n".encode())
        self._framing.next_event()

    def _feed_body(self, framing: h11.Connection) -> None:
        while isinstance(event := framing.next_event(), h11.Data):
            self._body.write(event.data)
            self.size += len(event.data)
        too_long = self.size > LARGEST_BYTES  # the app says so
        if too_long or framing.trailing_data[0]:
            self._request.force_close()
        self.ends = too_long or isinstance(event, h11.EndOfMessage)

    def want_body(self, sock: socket.socket) -> None:
        """Go on with the body, since the app wants it."""
        self._wanted = True
        self._began = time.monotonic()
        if any(name == "EXPECT" for name, _value in self._request.headers):
            with contextlib.suppress(OSError):
                sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def is_for_a_thread(self, now: float) -> bool:
        """Return whether there is something for the app to do."""
        if self.ends or self._request is None or self._wanted:
            return self.ends
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
    """Collects requests in the event loop; threads work on what is there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arriving: dict[Any, None] = {}  # connections, the longest here first
        self._leaving: dict[Any, float] = {}  # refused ones, and until when they may go on sending
        self._buffered = 0
        self._looks_at = 0.0
        self._verified: set[str] = set()

    def verified(self, address: str) -> None:
        """Note an address from which signed mail came. Called by threads."""
        self._verified.add(address)

    def enqueue_req(self, conn: Any) -> None:
        """Await a request on a connection that is new, or was kept."""
        if self.cfg.is_ssl:  # gunicorn's own way; TLS belongs to a proxy
            super().enqueue_req(conn)
            return None
        if conn.parser is None and self._is_one_too_many(conn):
            return self._close(conn)
        conn.parser, conn.initialized, conn.data_ready = Arrival(self.cfg, conn.client), True, True
        return self._await(conn)

    def _is_one_too_many(self, conn: Any) -> bool:
        if self.nr_conns >= self.worker_connections and self._arriving:
            self._end(next(iter(self._arriving)))
        if not isinstance(conn.client, tuple):
            return False  # a Unix socket
        address = conn.client[0]
        if address in self._verified or self._is_trusted(address):
            return False
        # By slices: a Unix socket's address is empty.
        unfinished = sum(each.client[:1] == (address,) for each in self._arriving)
        return bool(unfinished >= UNFINISHED_PER_ADDRESS)

    def _is_trusted(self, address: str) -> bool:
        networks = self.cfg.forwarded_allow_networks()
        everyone = "*" in self.cfg.forwarded_allow_ips
        return everyone or any(ipaddress.ip_address(address) in each for each in networks)

    def _await(self, conn: Any) -> None:
        conn.sock.setblocking(False)
        self._arriving[conn] = None
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))
        self._receive(conn)  # most of it is here already

    def _receive(self, conn: Any, _sock: Any = None) -> None:
        arrival = conn.parser
        try:
            data = conn.sock.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data = b""
        if not data and not arrival.has_head:
            return self._end(conn)
        before = arrival.size
        arrival.feed(data)
        self._buffered += arrival.size - before
        if arrival.is_for_a_thread(time.monotonic()):
            return self._serve(conn)
        if self._buffered > BUFFERED_BYTES:
            largest = max(self._arriving, key=lambda each: int(each.parser.size))
            largest.parser.break_off()
            self._serve(largest)
        return None

    def _serve(self, conn: Any) -> None:
        self._forget(conn)
        super().enqueue_req(conn)

    def _forget(self, conn: Any) -> None:
        del self._arriving[conn]
        self.poller.unregister(conn.sock)

    def _end(self, conn: Any) -> None:
        self._forget(conn)
        self._close(conn)

    def _close(self, conn: Any) -> None:
        if conn.parser is not None:
            self._buffered -= conn.parser.size
            conn.parser.close()
        self.nr_conns -= 1
        conn.close()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Look in time after those that are late."""
        super().wait_for_and_dispatch_events(
            min(timeout, SMALL_SECONDS) if self._arriving else timeout
        )

    def murder_pending(self) -> None:
        """End what takes too long, and ask the app about bodies that are not here yet."""
        now = time.monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + SMALL_SECONDS
        for conn in list(self._arriving):
            arrival = conn.parser
            if arrival.is_late(now) or not (self.alive or arrival.has_head):
                self._end(conn)
            elif arrival.is_for_a_thread(now):
                self._serve(conn)
        for conn, until in list(self._leaving.items()):
            if now > until:
                self._part(conn)

    def handle(self, conn: Any) -> Any:
        """Work on a request, in a thread."""
        try:
            return super().handle(conn)
        except BodyWanted:
            return _WANTS_BODY

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request, to a client that reads its answer in time."""
        conn.sock.settimeout(SEND_SECONDS)
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Future[Any]) -> None:
        """Go on with a connection after a thread."""
        result = None if fs.cancelled() or fs.exception() else fs.result()
        if self.cfg.is_ssl:
            super().finish_request(conn, fs)
        elif result is _WANTS_BODY:
            conn.parser.want_body(conn.sock)
            self._await(conn)
        elif result:
            self._buffered -= conn.parser.size
            conn.parser.close()
            super().finish_request(conn, fs)
        else:
            self._permit(conn)

    def _permit(self, conn: Any) -> None:
        """Close a connection on which more may come, without the reset that would lose the answer."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
        except OSError:
            return self._close(conn)
        self._leaving[conn] = time.monotonic() + LINGER_SECONDS
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._discard, conn))
        return None

    def _discard(self, conn: Any, _sock: Any = None) -> None:
        with contextlib.suppress(OSError):
            if conn.sock.recv(_RECEIVE_BYTES):
                return
        self._part(conn)

    def _part(self, conn: Any) -> None:
        del self._leaving[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)
