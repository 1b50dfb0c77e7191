"""A second mailagent in a process of its own, with its own database and providers: for loops of two."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.openai import OpenAIServer
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import WebhookKey
from mailagent.demo.process import AppProcess
from tests.adapters.parse_requests import CONTENT_TYPE
from tests.harness import wait_until
from tests.ports import choose_port
from tests.processes import base_environment

ADDRESS = "support@club.example"
TEAM = "tim@club.example"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The other shop, as its mail provider sees it."""

    url: str
    key: WebhookKey
    mailboxes: Mailboxes

    def post(self, body: bytes) -> int:
        """Post an inbound mail, signed; return the answer's status."""
        headers = {"Content-Type": CONTENT_TYPE, **self.key.sign(body)}
        request = urllib.request.Request(
            f"{self.url}/webhooks/sendgrid/inbound", data=body, headers=headers
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.status)


@contextmanager
def open_neighbour(folder: Path, database: Path) -> Iterator[Neighbour]:
    """Run the other shop on a migrated SQLite file; `folder` is for its keys, mail and log."""
    mailboxes = Mailboxes()
    key = WebhookKey(folder / "inbound.pem")
    servers = openai, sendgrid = OpenAIServer(), SendGridServer(mailboxes, ADDRESS)
    for server in servers:
        server.start()
    port = choose_port()
    environment = {
        **base_environment(),
        "DATABASE_URL": f"sqlite:///{database}",
        "SECRET_KEY": "a key for tests only",
        "WORKER_ID": "neighbour",
        "SUPPORT_ADDRESS": ADDRESS,
        "MANAGER_EMAILS": TEAM,
        "OPENAI_BASE_URL": f"{openai.url}/v1",
        "OPENAI_API_KEY": "test",
        "SENDGRID_BASE_URL": sendgrid.url,
        "SENDGRID_API_KEY": "test",
        "SENDGRID_INBOUND_PUBLIC_KEY": key.public_text(),
    }
    app = AppProcess(port, environment, folder / "app.log")
    try:
        wait_until(app.is_ready, 30, "the other shop to open")
        yield Neighbour(f"http://127.0.0.1:{port}", key, mailboxes)
    finally:
        app.stop()
        for server in servers:
            server.stop()
