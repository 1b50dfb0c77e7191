"""The scripted model behind one event loop: hundreds may wait for it at once, none of them in a thread."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from email.parser import BytesParser

from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.fakes.openai import OpenAIServer

_BACKLOG = 1024
_HEAD_LIMIT_BYTES = 64 * 1024


class ModelServer:
    """Speaks the Responses API. `latency_seconds`: how long each answer takes; it may be changed at any time.

    `requests`, `seconds`: how many answers there were, and the time they took; `most_at_once`: how many were
    waited for at the same moment.
    """

    def __init__(self) -> None:
        self.latency_seconds = 0.0
        self.requests, self.seconds = 0, 0.0
        self.most_at_once = 0
        self._at_once = 0
        self._model = _Model()
        self._loop = asyncio.new_event_loop()
        self.url = ""

    def start(self) -> None:
        """Begin to answer, in a thread of this process."""
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    async def _open(self) -> None:
        server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, backlog=_BACKLOG, limit=_HEAD_LIMIT_BYTES
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await _read(reader)
                writer.write(_written(await self._answer(request)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed it, or died
        finally:
            writer.close()

    async def _answer(self, request: Request) -> Answer:
        began = time.perf_counter()
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        answer = self._model.answer(request)
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        self._at_once -= 1
        self.requests += 1
        self.seconds += time.perf_counter() - began
        return answer


class _Model(OpenAIServer):
    """The demo's server, asked without its sockets."""

    def answer(self, request: Request) -> Answer:
        return self._create(request)


async def _read(reader: asyncio.StreamReader) -> Request:
    """Read one request. Raises IncompleteReadError when the client has closed the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, _, fields = head.partition(b"\r\n")
    headers = BytesParser().parsebytes(fields, headersonly=True)
    body = await reader.readexactly(int(headers.get("Content-Length") or 0))
    return Request(first.split()[1].decode("ascii"), headers, body)


def _written(answer: Answer) -> bytes:
    body = json.dumps(answer.value).encode()
    head = (
        f"HTTP/1.1 {answer.status} OK\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
