"""The programs that are measured: the app in each of its roles, and the bare view beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailagent import serving
from mailagent.demo.fakes.webhooks import WebhookKey
from tests.harness import shop_settings
from tests.processes import Process, Web, Worker, base_environment
from tests.programs.bench.providers import Providers

WEBHOOK = "/webhooks/sendgrid/inbound"
_WORKER = ("flask", "--app", "wsgi", "worker")
_BARE_VIEW = (
    "tests.programs.bench.floor_view:make()",
    *("--worker-class", serving.worker_class, "--threads", str(serving.threads)),
)


class Stable:
    """Starts programs with everything they need. `folder` is for logs and keys."""

    def __init__(self, folder: Path, providers: Providers) -> None:
        self.key = WebhookKey(folder / "inbound.pem")
        self._events_key = WebhookKey(folder / "events.pem")
        self._folder = folder
        self._providers = providers

    @contextmanager
    def web(self, database_url: str, role: str, **settings: str) -> Iterator[tuple[Process, str]]:
        """Run the app under gunicorn; give the process and the webhook's URL."""
        environment = self.environment(database_url, role) | settings
        with _served(Web("bench", environment, self._folder, role)) as served:
            yield served

    @contextmanager
    def worker(
        self, database_url: str, watched: Path | None = None, **settings: str
    ) -> Iterator[Process]:
        """Run workflows in a process without HTTP. `watched`: where it is to write down, several times a
        second, how many of its runs wait."""
        environment = self.environment(database_url, "worker") | settings
        program = ("tests.programs.bench.watched_worker", str(watched)) if watched else _WORKER
        name = settings.get("WORKER_ID", "bench")
        worker = Worker(name, environment, self._folder, program)
        try:
            worker.start_and_wait()
            yield worker
        finally:
            worker.stop()

    @contextmanager
    def bare_view(self, database_url: str) -> Iterator[tuple[Process, str]]:
        """Run the floor of receiving, served as the app is."""
        environment = {**base_environment(), "DATABASE_URL": database_url}
        with _served(Web("view", environment, self._folder, arguments=_BARE_VIEW)) as served:
            yield served

    def environment(self, database_url: str, role: str) -> dict[str, str]:
        return {
            **base_environment(),
            **shop_settings(
                database_url,
                self._providers.openai_url,
                self._providers.sendgrid_url,
                self.key,
                self._events_key,
            ),
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
