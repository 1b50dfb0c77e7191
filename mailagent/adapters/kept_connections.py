"""HTTP connections to one server that are kept for the next request, and never used for a second try.

urllib's way makes one for each request, and over HTTPS reads all certificates for it. A server may close a
connection that rests just when the next request is written to it, and then nobody knows whether it was read.
So only one that rested for a moment, and says nothing, is used again; whatever happens to it after the first
byte is the caller's to judge.
"""

from __future__ import annotations

import io
import select
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
    getproxies,
    proxy_bypass,
)
from urllib.response import addinfourl

# Far below what any server waits for: the race for the last moment is never run.
REST_SECONDS = 3.0
# Those that a burst leaves are closed at the next request after their time; until then they are open files.
KEPT_MOST = 16


def opener_for(url: str, timeout_seconds: float) -> KeptConnections | OpenerDirector:
    """Return what opens requests to the server of `url`, without following redirects: connections that are
    kept or, if the environment names a proxy for it, urllib's opener."""
    parts = urlsplit(url)
    context = _context() if parts.scheme == "https" else None
    if parts.scheme in getproxies() and not proxy_bypass(parts.netloc):
        return build_opener(_NoRedirects, HTTPSHandler(context=context))
    return KeptConnections(parts.netloc, context, timeout_seconds)


class KeptConnections:
    """Opens requests as urllib's openers do. Threads may share one."""

    def __init__(self, host: str, context: ssl.SSLContext | None, timeout_seconds: float) -> None:
        """`host`: with its port, if not the usual one. `context`: for HTTPS. `timeout_seconds`: for
        connecting and for each read."""
        self._host = host
        self._context = context
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        # The one that rests for the shortest time is the last.
        self._resting: list[tuple[float, HTTPConnection]] = []

    def open(self, request: Request, timeout: float | None = None) -> addinfourl:
        """Send the request once, and return the whole answer; `timeout` is that of the connections.

        Raises HTTPError for all but 2xx, URLError for what went wrong before an answer was awaited,
        OSError or HTTPException for an answer that was lost.
        """
        connection = self._take() or self._connect()
        try:
            answer = _exchange(connection, request)
            body = io.BytesIO(answer.read())
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        if not 200 <= answer.status < 300:
            raise HTTPError(request.full_url, answer.status, answer.reason, answer.headers, body)
        return addinfourl(body, answer.headers, request.full_url, answer.status)

    def _take(self) -> HTTPConnection | None:
        with self._lock:
            while self._resting:
                since, connection = self._resting.pop()
                if not _is_old(since) and _is_silent(connection):
                    return connection
                connection.close()
        return None

    def _connect(self) -> HTTPConnection:
        connection = (
            HTTPConnection(self._host, timeout=self._timeout_seconds)
            if self._context is None
            else HTTPSConnection(self._host, timeout=self._timeout_seconds, context=self._context)
        )
        connection.auto_open = 0  # else one that was lost would be opened anew, for a second try
        try:
            connection.connect()
        except OSError as problem:
            connection.close()
            raise URLError(problem) from problem
        return connection

    def _keep(self, connection: HTTPConnection) -> None:
        if connection.sock is None:
            return  # the server has said that it closes it
        with self._lock:
            self._resting.append((time.monotonic(), connection))
            while len(self._resting) > KEPT_MOST or _is_old(self._resting[0][0]):
                self._resting.pop(0)[1].close()


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing: urllib would turn the POST into a GET, whose 200 looks like success while
        the mail is lost, and would show the API key to wherever the redirect points."""


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _exchange(connection: HTTPConnection, request: Request) -> HTTPResponse:
    try:
        connection.request(
            request.get_method(), request.selector, request.data, dict(request.header_items())
        )
    except OSError as problem:
        raise URLError(problem) from problem
    return connection.getresponse()


def _is_old(since: float) -> bool:
    return time.monotonic() - since >= REST_SECONDS


def _is_silent(connection: HTTPConnection) -> bool:
    """Return whether the server has neither closed the connection nor said anything that nobody asked."""
    looks = select.poll()
    looks.register(connection.sock, select.POLLIN | select.POLLPRI)
    return not looks.poll(0)
