"""A small JSON server on 127.0.0.1 that runs in a thread: the base of the demo's local providers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` is without the query."""

    path: str
    headers: Message
    body: bytes
    query: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back: `value` as JSON, bytes as they are, nothing when it is None."""

    status: int
    value: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Answer]


class LineCut(Exception):
    """Raised by a route: the connection ends without an answer."""


class LocalServer:
    """Serves `routes` ("POST /v1/responses" → function) on a free port; other addresses go to `otherwise`."""

    def __init__(self, routes: Mapping[str, Route], otherwise: Route) -> None:
        members = {"routes": dict(routes), "otherwise": staticmethod(otherwise)}
        handler = type("Handler", (_Handler,), members)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begin to answer, in a thread of this process."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop answering and release the port."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Send headers and body in one packet: two packets cost 40 ms by Nagle and delayed ACK.
    wbufsize = -1
    disable_nagle_algorithm = True
    routes: Mapping[str, Route]
    otherwise: Route

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal shows the demo's story."""

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        route = self.routes.get(f"{self.command} {path}", self.otherwise)
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = route(Request(path, self.headers, body, query, self.command))
        except LineCut:  # any other exception of a route is printed to standard error
            self.close_connection = True
            return
        self._send(answer)

    do_GET = do_POST = do_OPTIONS = _serve  # noqa: N815 - the names that the standard library calls

    def _send(self, answer: Answer) -> None:
        data = _encode(answer.value)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        # The demo kills the app, perhaps while it waits for this response.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(answer.status)
            for name, value in {**headers, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()


def _encode(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else json.dumps(value).encode()
