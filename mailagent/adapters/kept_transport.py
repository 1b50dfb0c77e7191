"""What the OpenAI SDK sends its requests by: connections that are kept, instead of the pool of its HTTP client.

That pool looks through all of its connections for each request, and waits for an answer without an end
(decision 47). Imported with the SDK, at the first ask.
"""

from __future__ import annotations

import ssl
import time
from http.client import HTTPException
from threading import Lock

import httpx2  # the SDK's own HTTP client

from mailagent.adapters.kept_connections import (
    KeptConnections,
    NotConnected,
    NotInTime,
    NotWritten,
    Patience,
)

_UNTIL = "mailagent.until"


class WholeTimeout(httpx2.ReadTimeout):
    """The answer came, but did not end in time."""


class KeptTransport(httpx2.BaseTransport):
    """Sends requests of an httpx client, one connection to each server for each at a time."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._lock = Lock()
        self._servers: dict[tuple[str, str], KeptConnections] = {}
        self._context: ssl.SSLContext | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request and return the whole answer. Raises httpx's exceptions."""
        url = request.url
        server = self._server_of(url.scheme, url.netloc.decode("ascii"))
        target, headers, body = url.raw_path.decode("ascii"), dict(request.headers), request.read()
        # One end for all: a redirect is another request with the same extensions.
        until = request.extensions.setdefault(_UNTIL, time.monotonic() + self._patience.whole)
        try:
            answer = server.ask(request.method, target, headers, body, until)
        except NotConnected as problem:
            if isinstance(problem.__cause__, TimeoutError):
                raise httpx2.ConnectTimeout("no connection in time") from problem
            raise httpx2.ConnectError(str(problem.__cause__)) from problem
        except NotWritten as problem:
            if isinstance(problem.__cause__, TimeoutError):
                raise httpx2.WriteTimeout("it was not written in time") from problem
            raise httpx2.WriteError(str(problem.__cause__)) from problem
        except NotInTime as problem:
            raise WholeTimeout(str(problem)) from problem
        except TimeoutError as problem:
            raise httpx2.ReadTimeout(str(problem)) from problem
        except OSError as problem:
            raise httpx2.ReadError(str(problem)) from problem
        except HTTPException as problem:
            raise httpx2.RemoteProtocolError(str(problem)) from problem
        # As bytes, as http.client has read them: httpx takes a text for ASCII.
        said = [
            (name.encode("latin-1"), text.encode("latin-1"))
            for name, text in answer.headers.items()
        ]
        return httpx2.Response(answer.status, headers=said, content=answer.body)

    def _server_of(self, scheme: str, host: str) -> KeptConnections:
        with self._lock:
            found = self._servers.get((scheme, host))
            if found is None:
                context = self._certificates() if scheme == "https" else None
                found = KeptConnections(host, context, self._patience)
                self._servers[scheme, host] = found
            return found

    def _certificates(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = httpx2.create_ssl_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context
