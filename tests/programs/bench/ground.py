"""What every measurement stands on: the server, fresh databases, the providers, the app in each of its roles.

A measurement first has a few mails one after the other (for the wall time, and to warm up), then many
at once (for everything else), then as long a rest, whose use is taken off.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailagent import serving
from mailagent.demo.fakes.webhooks import WebhookKey
from tests.databases import postgres_copy
from tests.harness import shop_settings
from tests.processes import Process, Web, Worker, base_environment
from tests.programs.bench.meter import SETTLE_SECONDS, Usage, read_usage
from tests.programs.bench.providers import Providers

WEBHOOK = "/webhooks/sendgrid/inbound"
_WORKER = ("flask", "--app", "wsgi", "worker")
_BARE_VIEW = (
    "tests.programs.bench.floor_view:make()",
    *("--worker-class", serving.worker_class, "--threads", str(serving.threads)),
)
_MOST_ALONE = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. `mails`: at once; `slow_mails`: for the slow model; `pair_mails`: for one
    worker and for two; `waiting`: refunds; `stock`: mails that are in the database already; `thread`: in
    the customer's thread; `starts`: of each role; `idle_seconds`: until memory is read."""

    mails: int = 600
    slow_mails: int = 4000
    pair_mails: int = 320
    waiting: int = 10_000
    decisions: int = 10
    stock: int = 1_000_000
    thread: int = 50
    starts: int = 5
    idle_seconds: float = 10.0
    settle_seconds: float = SETTLE_SECONDS


# So few that the figures mean nothing: they only show that everything works.
HANDFUL = Sizes(3, 4, 4, 5, 2, 600, 6, 1, 0.1, 0.1)


@dataclass(frozen=True)
class Ground:
    """`template`: the migrated database to copy. `folder`: for keys, logs and files of the measurements."""

    server_url: str
    template: str
    providers: Providers
    sizes: Sizes
    folder: Path

    @property
    def mails(self) -> int:
        return self.sizes.mails

    @property
    def alone(self) -> int:
        """How many mails come one after the other."""
        return min(self.mails, _MOST_ALONE)

    @property
    def key(self) -> WebhookKey:
        """The key that SendGrid signs with."""
        return WebhookKey(self.folder / "webhooks.pem")

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the URL of a fresh database."""
        with postgres_copy(self.server_url, self.template) as url:
            yield url

    def read(self, database_url: str, *children: Process) -> Usage:
        """Wait until PostgreSQL's counts are whole, and read what was used so far."""
        time.sleep(self.sizes.settle_seconds)
        return read_usage(self.server_url, database_url, children)

    # --- the programs that are measured -----------------------------------------------------------

    @contextmanager
    def web(self, database_url: str, role: str, **settings: str) -> Iterator[tuple[Process, str]]:
        """Run the app under gunicorn; give the process and the webhook's URL."""
        environment = self.environment(database_url, role) | settings
        with _served(Web("bench", environment, self.folder, role)) as served:
            yield served

    @contextmanager
    def worker(
        self, database_url: str, watched: Path | None = None, **settings: str
    ) -> Iterator[Process]:
        """Run workflows in a process without HTTP. `watched`: where it writes down, several times a second,
        how many of its runs wait."""
        environment = self.environment(database_url, "worker") | settings
        program = ("tests.programs.bench.watched_worker", str(watched)) if watched else _WORKER
        name = settings.get("WORKER_ID", "bench")
        worker = Worker(name, environment, self.folder, program)
        try:
            worker.start_and_wait()
            yield worker
        finally:
            worker.stop()

    @contextmanager
    def bare_view(self, database_url: str) -> Iterator[tuple[Process, str]]:
        """Run the floor of receiving, served as the app is."""
        environment = {**base_environment(), "DATABASE_URL": database_url}
        with _served(Web("view", environment, self.folder, arguments=_BARE_VIEW)) as served:
            yield served

    def environment(self, database_url: str, role: str) -> dict[str, str]:
        openai, sendgrid = self.providers.openai_url, self.providers.sendgrid_url
        return {
            **base_environment(),
            **shop_settings(database_url, openai, sendgrid, self.key, self.key),
            "MAILAGENT_ROLE": role,
            "MAILS_PER_HOUR": "10000000",  # all come from one domain
        }


@contextmanager
def _served(web: Web) -> Iterator[tuple[Process, str]]:
    try:
        web.start_and_wait()
        yield web, f"http://127.0.0.1:{web.port}{WEBHOOK}"
    finally:
        web.stop()


@contextmanager
def open_ground(server: str, template: str, sizes: Sizes) -> Iterator[Ground]:
    """Give what every measurement stands on; the providers run until the end of this."""
    with tempfile.TemporaryDirectory(prefix="mailagent-bench-") as path:
        providers = Providers(Path(path))
        try:
            yield Ground(server, template, providers, sizes, Path(path))
        finally:
            providers.stop()
