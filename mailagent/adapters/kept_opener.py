"""What the SendGrid SDK takes for one of urllib's openers: connections that are kept, or a proxy.

urllib's way makes a connection for each request, and over HTTPS reads all certificates for it.
"""

from __future__ import annotations

import io
import ssl
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener
from urllib.response import addinfourl

from mailagent.adapters.deadline import SHARE, within
from mailagent.adapters.kept_connections import (
    KeptConnections,
    NotConnected,
    NotWritten,
    Patience,
    is_proxied,
)

# Far below what any server waits for: the race for the last moment is never run.
REST_SECONDS = 3.0
# Those that a burst leaves are closed at the next request after their time; until then they are open files.
KEPT_MOST = 16


def opener_for(url: str, timeout_seconds: float) -> KeptOpener | ProxyOpener:
    """Return what opens requests to the server of `url`, without following redirects.

    `timeout_seconds` is for connecting and for each read of an answer, and half as much again for all of it.
    """
    parts = urlsplit(url)
    context = _context() if parts.scheme == "https" else None
    if is_proxied(parts):
        return ProxyOpener(context, timeout_seconds)
    patience = Patience(timeout_seconds, timeout_seconds, REST_SECONDS, KEPT_MOST)
    return KeptOpener(KeptConnections(parts.netloc, context, patience))


class KeptOpener:
    """Opens requests as urllib's openers do. Threads may share one."""

    def __init__(self, server: KeptConnections) -> None:
        self._server = server

    def open(self, request: Request, timeout: float | None = None) -> addinfourl:
        """Send the request once, and return the whole answer; `timeout` is that of the connections.

        Raises HTTPError for all but 2xx, URLError for what went wrong before an answer was awaited,
        OSError or HTTPException for an answer that was lost.
        """
        headers, body = dict(request.header_items()), cast("bytes | None", request.data)
        try:
            answer = self._server.ask(request.get_method(), request.selector, headers, body)
        except (NotConnected, NotWritten) as problem:
            raise URLError(problem.__cause__ or problem) from problem
        whole = io.BytesIO(answer.body)
        if not 200 <= answer.status < 300:
            raise HTTPError(request.full_url, answer.status, answer.reason, answer.headers, whole)
        return addinfourl(whole, answer.headers, request.full_url, answer.status)


class ProxyOpener:
    """urllib's opener, which knows how to ask a proxy."""

    def __init__(self, context: ssl.SSLContext | None, timeout_seconds: float) -> None:
        self._opener = build_opener(_NoRedirects, HTTPSHandler(context=context))
        self._whole_seconds = timeout_seconds * SHARE

    def open(self, request: Request, timeout: float | None = None) -> addinfourl:
        """Send the request once, and return the whole answer. Raises as `KeptOpener.open` does."""

        def ask() -> addinfourl:
            try:
                found = self._opener.open(request, timeout=timeout)
            except HTTPError as refusal:
                body = io.BytesIO(refusal.read())
                raise HTTPError(
                    refusal.url, refusal.code, refusal.reason, refusal.headers, body
                ) from None
            return addinfourl(io.BytesIO(found.read()), found.headers, found.url, found.status)

        return within(self._whole_seconds, ask)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing: urllib would turn the POST into a GET, whose 200 looks like success while
        the mail is lost, and would show the API key to wherever the redirect points."""


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
