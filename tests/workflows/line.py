"""A TCP line to a PostgreSQL of these tests, which listens on a Unix socket only, and how it goes dead."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

# The line holds little, so that who writes to a dead one soon notices.
_ROOM = 4096


class Line:
    """Forwards what comes to its `port` until it is dead: then nothing is read, and nothing closed."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._alive = threading.Event()
        self._alive.set()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._forward(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, block_on_close = True, False

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        self.port = int(self.server.server_address[1])

    def die(self) -> None:
        """Read nothing any more, as the network of a host that is gone."""
        self._alive.clear()

    def _forward(self, near: socket.socket) -> None:
        with self._connect() as far:
            back = threading.Thread(target=self._copy, args=(far, near), daemon=True)
            back.start()
            self._copy(near, far)
            back.join()

    def _copy(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_ROOM):
                self._alive.wait()
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)


@contextmanager
def line_to(url: str) -> Iterator[tuple[Line, str]]:
    """Give a line to a database, and the URL by which it is reached over it."""
    at = sa.make_url(url)
    line = Line(lambda: _connect(at))
    thread = threading.Thread(target=line.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    query = {name: value for name, value in at.query.items() if name not in ("host", "port")}
    over = at.set(host="127.0.0.1", port=line.port, query=query)
    try:
        yield line, over.render_as_string(hide_password=False)
    finally:
        line._alive.set()
        line.server.shutdown()
        line.server.server_close()


def _connect(at: sa.URL) -> socket.socket:
    host = str(at.query.get("host") or at.host)
    if not host.startswith("/"):
        return socket.create_connection((host, at.port or 5432))
    far = socket.socket(socket.AF_UNIX)
    far.connect(f"{host}/.s.PGSQL.{at.query.get('port') or at.port or 5432}")
    return far


def ends_at(port: int) -> Iterator[socket.socket]:
    """Give each socket of this process that is connected to a port, whoever opened it."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:  # closed meanwhile, or no socket
            continue
        with found:
            try:
                peer = found.getpeername()
            except OSError:
                continue
            if found.family == socket.AF_INET and peer[1] == port:
                yield found
