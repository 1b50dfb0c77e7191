"""Model's servers that keep count: of who asks at the same moment, and of tokens a minute."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.openai import OpenAIServer

MINUTE = timedelta(minutes=1)


class CrowdedOpenAI(OpenAIServer):
    """The scripted model, which thinks for a while. `most_of`: by how many calls at the same moment it was
    asked for each customer, by the hash that it is told; `most`: of all together."""

    def __init__(self, latency_seconds: float) -> None:
        self.most_of: Counter[str] = Counter()
        self.most = 0
        self._at_once: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__(latency_seconds)

    def _create(self, request: Request) -> Answer:
        customer = json.loads(request.body)["safety_identifier"]
        with self._lock:
            self._at_once[customer] += 1
            self.most_of[customer] = max(self.most_of[customer], self._at_once[customer])
            self.most = max(self.most, self._at_once.total())
        try:
            return super()._create(request)
        finally:
            with self._lock:
                self._at_once[customer] -= 1


class MeteredOpenAI(LocalServer):
    """Lets through so many tokens in any minute by the clock `now`, and counts a call as OpenAI does: a fourth
    of its characters, and the most that its answer may have. `counted`: what it let through."""

    def __init__(self, tokens: int, now: Callable[[], datetime]) -> None:
        self._tokens, self._now = tokens, now
        self.counted: list[tuple[datetime, int]] = []
        super().__init__({"POST /v1/responses": self._create}, lambda _: Answer(404))

    def _create(self, request: Request) -> Answer:
        body, now = json.loads(request.body), self._now()
        sent = sum(len(json.dumps(body[part])) for part in ("instructions", "input", "tools")) // 4
        tokens = sent + body["max_output_tokens"]
        if tokens + sum(each for at, each in self.counted if at > now - MINUTE) > self._tokens:
            return Answer(429, {"error": {"code": "rate_limit_exceeded", "message": "TPM"}})
        self.counted.append((now, tokens))
        return Answer(200, _says_hello(sent))


def _says_hello(sent: int) -> dict[str, Any]:
    text = {"type": "output_text", "text": "Hello."}
    return {
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": [text]}],
        "usage": {"input_tokens": sent, "output_tokens": 5},
    }


def refuses(code: str, status: int = 429, wish_ms: int | None = None) -> Callable[[], Answer]:
    """Return what a server does that refuses a call, and wishes for a pause of so many milliseconds."""
    headers = {} if wish_ms is None else {"retry-after-ms": str(wish_ms)}
    error = {"message": code, "type": "error", "param": None, "code": code}
    return lambda: Answer(status, {"error": error}, headers)
