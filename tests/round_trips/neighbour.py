"""A second mailagent in a process of its own, with its own database and providers: for loops of two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.openai import OpenAIServer
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey
from tests.harness import shop_settings
from tests.processes import Web, base_environment

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
        path = f"{self.url}/webhooks/sendgrid/inbound"
        return httpx2.post(path, content=body, headers=headers, trust_env=False).status_code


@contextmanager
def open_neighbour(folder: Path, database: Path) -> Iterator[Neighbour]:
    """Run the other shop on a migrated SQLite file; `folder` is for its keys, mail and log."""
    mailboxes = Mailboxes()
    key = WebhookKey(folder / "inbound.pem")
    servers = openai, sendgrid = OpenAIServer(), SendGridServer(mailboxes, ADDRESS)
    for server in servers:
        server.start()
    environment = {
        **base_environment(),
        **shop_settings(f"sqlite:///{database}", openai.url, sendgrid.url, key, key),
        "SENDGRID_EVENTS_PUBLIC_KEY": "",
        "SUPPORT_ADDRESS": ADDRESS,
        **dict.fromkeys(("MANAGER_EMAILS", "TEAM_EMAILS", "OPS_EMAILS"), TEAM),
    }
    web = Web("neighbour", environment, folder, role="all")
    try:
        web.start_and_wait()
        yield Neighbour(f"http://127.0.0.1:{web.port}", key, mailboxes)
    finally:
        web.stop()
        for server in servers:
            server.stop()
