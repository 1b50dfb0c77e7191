"""The local OpenAI and SendGrid in a process of their own, so that their CPU is not counted.

They answer without latency unless the model is told otherwise. A third port tells how many mails were taken and
how long the model thought.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.story import find_link
from tests.cast import SUPPORT
from tests.processes import Process, ProcessFailed, base_environment
from tests.programs.bench.model_server import ModelServer

PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Counts:
    """`most_at_once`: how many calls of the model were under way at once since its latency was set."""

    mails: int
    requests: int
    model_seconds: float
    most_at_once: int


class Providers:
    """Both servers, as their parent sees them."""

    def __init__(self, folder: Path) -> None:
        log = folder / "providers.log"
        module = "tests.programs.bench.providers"
        self._child = Process("providers", [module], base_environment(), log)
        self._child.start()
        self._child.wait_until(lambda: "}" in self._child.said())
        urls = json.loads(self._child.said().splitlines()[-1])
        self.openai_url: str = urls["openai"]
        self.sendgrid_url: str = urls["sendgrid"]
        host = urlsplit(urls["counts"])
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", host.port, timeout=2 * PATIENCE_SECONDS
        )

    def wait_for_mails(self, count: int, seconds: float = PATIENCE_SECONDS) -> Counts:
        """Wait until `count` mails were sent since the start. Raises ProcessFailed in vain."""
        job = {"mails": count, "seconds": seconds}
        counts = Counts(**self._request("/wait", job))
        if counts.mails < count:
            raise ProcessFailed(f"waited {seconds:g} s for {count} mails, {counts.mails} were sent")
        return counts

    def counts(self) -> Counts:
        return self.wait_for_mails(0)

    def set_latency(self, seconds: float) -> None:
        """Let each answer of the model take so long from now on."""
        self._request("/latency", {"seconds": seconds})

    def list_links(self, since: int) -> list[str]:
        """Return the approval links in the mails that were sent after the first `since`."""
        links: list[str] = self._request("/links", {"since": since})
        return links

    def _request(self, path: str, job: object) -> Any:
        self._connection.request("POST", path, json.dumps(job))
        return json.load(self._connection.getresponse())

    def stop(self) -> None:
        self._connection.close()
        self._child.stop()


def serve() -> None:
    """Run the servers until the process is stopped."""
    # By default five connections may wait and more are reset: the app would rightly hold such a mail
    # back for ten minutes, because nobody can tell whether it was taken.
    ThreadingHTTPServer.request_queue_size = 128
    mailboxes, model = Mailboxes(), ModelServer()
    sendgrid = SendGridServer(mailboxes, SUPPORT)

    def wait(request: Request) -> Answer:
        job = json.loads(request.body)
        mailboxes.wait_for(lambda: len(mailboxes.sent()) >= job["mails"], job["seconds"])
        counts = {
            "mails": len(mailboxes.sent()),
            "requests": model.requests,
            "model_seconds": model.seconds,
            "most_at_once": model.most_at_once,
        }
        return Answer(200, counts)

    def set_latency(request: Request) -> Answer:
        model.latency_seconds = json.loads(request.body)["seconds"]
        model.most_at_once = 0
        return Answer(200, {})

    def list_links(request: Request) -> Answer:
        sent = mailboxes.sent()[json.loads(request.body)["since"] :]
        return Answer(200, [link for link in map(find_link, sent) if link])

    routes = {"POST /wait": wait, "POST /latency": set_latency, "POST /links": list_links}
    counts = LocalServer(routes, lambda _: Answer(404))
    for server in (model, sendgrid, counts):
        server.start()
    urls = {"openai": model.url, "sendgrid": sendgrid.url, "counts": counts.url}
    sys.stdout.write(json.dumps(urls) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    serve()
