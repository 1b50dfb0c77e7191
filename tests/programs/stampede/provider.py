"""A model's server that can be away, and counts who asks it."""

from __future__ import annotations

import threading

from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.fakes.openai import OpenAIServer


class AbsentOpenAI(OpenAIServer):
    """The scripted model. `says`: what it answers instead while it is away; `asked`: how often it was
    asked; `most_at_once`: by how many at the same moment."""

    def __init__(self, latency_seconds: float = 0.0) -> None:
        self.says: Answer | None = None
        self.asked = 0
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        super().__init__(latency_seconds)

    def goes_away(self, status: int = 503, code: str = "server_is_overloaded") -> None:
        error = {"message": code, "type": "error", "param": None, "code": code}
        self.says = Answer(status, {"error": error})

    def comes_back(self) -> None:
        self.says = None

    def _create(self, request: Request) -> Answer:
        with self._lock:
            self.asked += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.says or super()._create(request)
        finally:
            with self._lock:
                self._at_once -= 1
