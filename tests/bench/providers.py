"""The local OpenAI and SendGrid in a process of their own, so that their CPU is nobody else's.

They answer without latency. `python -m tests.bench.providers FOLDER` serves them; a third port tells
how many mails were taken and how long the model thought.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from mailagent.demo.local_server import Answer, LocalServer, Request
from mailagent.demo.mailboxes import Mailboxes
from mailagent.demo.openai_server import OpenAIServer
from mailagent.demo.sendgrid_server import SendGridServer
from tests.bench.child import Child, ChildFailed, base_environment, wait_until_ready
from tests.cast import SUPPORT

PATIENCE_SECONDS = 300.0


class _TimedModel(OpenAIServer):
    """Counts its answers and the time they took: what is taken off to get wall time without model."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.asks, self.seconds = 0, 0.0

    def _create(self, request: Request) -> Answer:
        began = time.perf_counter()
        answer = super()._create(request)
        with self._lock:
            self.asks += 1
            self.seconds += time.perf_counter() - began
        return answer


@dataclass(frozen=True, slots=True)
class Counts:
    mails: int
    asks: int
    model_seconds: float


class Providers:
    """Both servers, as their parent sees them."""

    def __init__(self, folder: Path) -> None:
        log = folder / "providers.log"
        self._child = Child(
            ["tests.bench.providers", str(folder / "mailboxes.jsonl")], base_environment(), log
        )
        wait_until_ready(self._child, lambda: "}" in self._child.said())
        urls = json.loads(self._child.said().splitlines()[-1])
        self.openai_url: str = urls["openai"]
        self.sendgrid_url: str = urls["sendgrid"]
        host = urlsplit(urls["counts"])
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", host.port, timeout=2 * PATIENCE_SECONDS
        )

    def wait_for_mails(self, count: int, seconds: float = PATIENCE_SECONDS) -> Counts:
        """Wait until `count` mails were sent since the start. Raises ChildFailed in vain."""
        job = {"mails": count, "seconds": seconds}
        self._connection.request("POST", "/wait", json.dumps(job))
        counts = Counts(**json.load(self._connection.getresponse()))
        if counts.mails < count:
            raise ChildFailed(f"waited {seconds:g} s for {count} mails, {counts.mails} were sent")
        return counts

    def counts(self) -> Counts:
        return self.wait_for_mails(0)

    def stop(self) -> None:
        self._connection.close()
        self._child.stop()


def serve(mailbox_file: Path) -> None:
    """Run the servers until the process is stopped."""
    # By default five connections may wait and more are reset: the app would rightly hold such a mail
    # back for ten minutes, because nobody can tell whether it was taken.
    ThreadingHTTPServer.request_queue_size = 128
    mailboxes, model = Mailboxes(mailbox_file), _TimedModel()
    sendgrid = SendGridServer(mailboxes, SUPPORT)

    def wait(request: Request) -> Answer:
        job = json.loads(request.body)
        mailboxes.wait_for(lambda: len(mailboxes.sent()) >= job["mails"], job["seconds"])
        counts = {
            "mails": len(mailboxes.sent()),
            "asks": model.asks,
            "model_seconds": model.seconds,
        }
        return Answer(200, counts)

    counts = LocalServer({"POST /wait": wait}, lambda _: Answer(404))
    for server in (model, sendgrid, counts):
        server.start()
    urls = {"openai": model.url, "sendgrid": sendgrid.url, "counts": counts.url}
    sys.stdout.write(json.dumps(urls) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
