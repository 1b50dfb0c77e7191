"""The app under gunicorn on PostgreSQL, with its own serving configuration: what the attacks are made on."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from mailagent.store.database import Database, open_database
from tests.cast import MONA
from tests.databases import postgres_copy
from tests.harness import letter
from tests.processes import Web, Worker, base_environment

INBOUND, EVENTS, STRIPE = (
    "/webhooks/sendgrid/inbound",
    "/webhooks/sendgrid/events",
    "/webhooks/stripe",
)
ORDERS_TOKEN = "a-token-of-the-shop-for-tests-only"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and after how many seconds."""

    status: int
    text: str
    seconds: float


@dataclass(frozen=True)
class Served:
    """A web process that serves, and its database. `key` signs both webhooks."""

    web: Web
    key: WebhookKey
    database_url: str
    database: Database
    environment: Mapping[str, str]
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.web.port}"

    def connect(self, source: str = "127.0.0.1", seconds: float = 20.0) -> socket.socket:
        """Return a connection from an address of this machine: any of 127.0.0.0/8 is one."""
        return socket.create_connection(("127.0.0.1", self.web.port), seconds, (source, 0))

    def get(self, path: str, seconds: float = 20.0) -> Answer:
        return self._request("GET", path, None, {}, seconds)

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], seconds: float = 20.0
    ) -> Answer:
        return self._request("POST", path, body, headers, seconds)

    def post_mail(self, text: str = "Where is my kettle?", seconds: float = 20.0) -> Answer:
        """Post a fresh mail of Ada's as SendGrid would."""
        return self.post_signed(build_body(letter(text)), seconds)

    def post_signed(self, body: bytes, seconds: float = 20.0) -> Answer:
        headers = {"Content-Type": CONTENT_TYPE, **self.key.sign(body)}
        return self.post(INBOUND, body, headers, seconds)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float,
    ) -> Answer:
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=seconds)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return Answer(answer.status, text, time.monotonic() - began)
        finally:
            connection.close()

    def count(self, table: str) -> int:
        with self.database.snapshot() as connection:
            return int(
                connection.execute(sa.select(sa.func.count()).select_from(sa.table(table))).scalar()
                or 0
            )

    def memory_bytes(self) -> int:
        """Return what gunicorn's processes take of the memory now, shared pages counted once."""
        parts = [pss_bytes(each) for each in (self.web.pid, *children_of(self.web.pid))]
        return sum(parts)

    def worker(self, name: str = "attacked") -> Worker:
        """Return a worker of the same shop, not started."""
        return Worker(name, self.environment, self.folder)


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text("utf-8").split()]


def pss_bytes(pid: int) -> int:
    """Return the proportional share of memory of a process, swapped pages included (proc_pid_smaps(5))."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    sizes = [line.split()[1] for line in lines if line.startswith(("Pss:", "SwapPss:"))]
    return sum(map(int, sizes)) * 1024


@pytest.fixture(scope="session")
def served(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_postgres: str
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("attacked")
    key = WebhookKey(folder / "webhook.pem")
    with postgres_copy(postgres_url, migrated_postgres) as url:
        environment = {
            **base_environment(),
            "DATABASE_URL": url,
            "SECRET_KEY": "a key for tests only",
            "MANAGER_EMAILS": MONA,
            "SENDGRID_INBOUND_PUBLIC_KEY": key.public_text(),
            "SENDGRID_EVENTS_PUBLIC_KEY": key.public_text(),
            "ORDERS_API_TOKEN": ORDERS_TOKEN,
            "STRIPE_WEBHOOK_SECRET": "whsec_for_tests_only",
        }
        web = Web("attacked-web", environment, folder)
        database = open_database(url)
        try:
            web.start_and_wait()
            yield Served(web, key, url, database, environment, folder)
        finally:
            database.close()
            web.ask_to_end()
            web.kill()
