"""The programs that are measured: the app in each of its roles, and the bare view beside it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailagent import serving
from mailagent.demo.fakes.webhooks import WebhookKey
from tests.cast import MAX, MONA, SUPPORT, TESS
from tests.ports import choose_port
from tests.programs.bench.child import Child, base_environment, wait_until_ready
from tests.programs.bench.providers import Providers

WEBHOOK = "/webhooks/sendgrid/inbound"
_WORKER = ["flask", "--app", "wsgi", "worker"]


class Stable:
    """Starts programs with everything they need. `folder` is for logs and keys."""

    def __init__(self, folder: Path, providers: Providers) -> None:
        self.key = WebhookKey(folder / "inbound.pem")
        self._events_key = WebhookKey(folder / "events.pem")
        self._folder = folder
        self._providers = providers

    @contextmanager
    def web(self, database_url: str, role: str, **settings: str) -> Iterator[tuple[Child, str]]:
        """Run the app under gunicorn; give the process and the webhook's URL."""
        arguments = ["gunicorn", "-c", "python:mailagent.serving", "wsgi:app"]
        environment = self.environment(database_url, role) | settings
        with _served(arguments, environment, self._log(role)) as served:
            yield served

    @contextmanager
    def worker(
        self, database_url: str, watched: Path | None = None, **settings: str
    ) -> Iterator[Child]:
        """Run workflows in a process without HTTP. `watched`: where it is to write down, several times a
        second, how many of its runs wait."""
        log = self._log("worker")
        environment = self.environment(database_url, "worker") | settings
        program = ["tests.programs.bench.watched_worker", str(watched)] if watched else _WORKER
        child = Child(program, environment, log)
        try:
            wait_until_ready(child, lambda: "The worker runs" in child.said())
            yield child
        finally:
            child.stop()

    @contextmanager
    def bare_view(self, database_url: str) -> Iterator[tuple[Child, str]]:
        """Run the floor of receiving, served as the app is."""
        arguments = [
            *("gunicorn", "tests.programs.bench.floor_view:make()"),
            *("--worker-class", serving.worker_class, "--threads", str(serving.threads)),
        ]
        environment = {**base_environment(), "DATABASE_URL": database_url}
        with _served(arguments, environment, self._log("view")) as served:
            yield served

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def environment(self, database_url: str, role: str) -> dict[str, str]:
        return {
            **base_environment(),
            "MAILAGENT_ROLE": role,
            "DATABASE_URL": database_url,
            "SECRET_KEY": "a key for benchmarks only",
            "MAILS_PER_HOUR": "10000000",  # all come from one domain
            "WORKER_ID": "bench",
            "SUPPORT_ADDRESS": SUPPORT,
            "MANAGER_EMAILS": f"{MONA},{MAX}",
            "TEAM_EMAILS": TESS,
            "OPENAI_BASE_URL": f"{self._providers.openai_url}/v1",
            "OPENAI_API_KEY": "bench",
            "SENDGRID_BASE_URL": self._providers.sendgrid_url,
            "SENDGRID_API_KEY": "bench",
            "SENDGRID_INBOUND_PUBLIC_KEY": self.key.public_text(),
            "SENDGRID_EVENTS_PUBLIC_KEY": self._events_key.public_text(),
        }


@contextmanager
def _served(
    arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[tuple[Child, str]]:
    port = choose_port()
    child = Child([*arguments, "--bind", f"127.0.0.1:{port}"], environment, log)
    try:
        wait_until_ready(child, lambda: _answers(port))
        yield child, f"http://127.0.0.1:{port}{WEBHOOK}"
    finally:
        child.stop()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
