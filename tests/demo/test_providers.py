"""What the demo's app gets to see of the machine it runs on, and the folder that it lives in."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailagent.demo import shop, show
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import DemoFolder, FolderInUse
from mailagent.settings import SETTINGS, load_settings

REAL = {
    "PATH": "/bin",
    "MAILAGENT_ENV": "production",
    "DATABASE_URL": "postgresql+psycopg://real/db",
    "SENDGRID_API_KEY": "real",
    "SENDGRID_BASE_URL": "https://api.sendgrid.com",
    "STRIPE_API_KEY": "real",
    "PAYMENT_GATEWAY": "stripe",
    "DBOS_CONDUCTOR_KEY": "real",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "https://traces.example",
    "OPS_EMAILS": "ops@shop.example",
    "GUNICORN_CMD_ARGS": "--workers 4",
    "OPENAI_BASE_URL": "https://models.example/v1",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DemoFolder]:
    folder = DemoFolder(tmp_path / "demo")
    yield folder
    folder.release()


def test_nothing_that_is_set_up_for_real_reaches_the_app(folder: DemoFolder) -> None:
    environment = Providers(folder, 8000, REAL).environment()
    assert environment["PATH"] == "/bin"
    assert "real" not in environment.values()
    for name in REAL.keys() - {"PATH"}:
        assert environment.get(name) != REAL[name]


def test_the_app_accepts_its_settings(folder: DemoFolder) -> None:
    environment = Providers(folder, 8000, REAL).environment()
    settings = load_settings(environment)
    assert settings.demo_url
    assert settings.inbound_keys
    assert settings.events_keys
    assert settings.database_url.startswith("sqlite:///")
    assert {setting.name for setting in SETTINGS} >= {"DATABASE_URL", "PUBLIC_URL"}


def test_the_operator_of_the_demo_may_log_in(folder: DemoFolder) -> None:
    settings = load_settings(Providers(folder, 8000, REAL).environment())
    assert settings.ops_emails == shop.OPERATORS


def test_with_a_key_the_real_model_is_asked_and_mail_stays_here(folder: DemoFolder) -> None:
    environ = {**REAL, "OPENAI_API_KEY": "sk-real", "OPENAI_MODEL": "gpt-5.4-mini"}
    environment = Providers(folder, 8000, environ).environment()
    assert environment["OPENAI_API_KEY"] == "sk-real"
    assert environment["OPENAI_BASE_URL"] == "https://models.example/v1"
    assert environment["OPENAI_MODEL"] == "gpt-5.4-mini"
    assert environment["SENDGRID_BASE_URL"].startswith("http://127.0.0.1:")


def test_links_and_webhooks_are_signed_alike_after_a_restart(folder: DemoFolder) -> None:
    first, second = (Providers(folder, 8000, {}).environment() for _ in range(2))
    for name in ("SECRET_KEY", "SENDGRID_INBOUND_PUBLIC_KEY", "SENDGRID_EVENTS_PUBLIC_KEY"):
        assert first[name] == second[name]


def test_two_demos_do_not_share_a_folder(folder: DemoFolder) -> None:
    with pytest.raises(FolderInUse, match="Another demo"):
        DemoFolder(folder.path)
    folder.release()
    DemoFolder(folder.path).release()


def test_an_app_that_outlives_its_demo_keeps_the_folder(folder: DemoFolder) -> None:
    app = subprocess.Popen(["sleep", "60"], pass_fds=[folder.lock_descriptor])
    folder.release()
    try:
        with pytest.raises(FolderInUse, match="may have outlived it"):
            DemoFolder(folder.path)
    finally:
        app.kill()
        app.wait()
    DemoFolder(folder.path).release()


def test_a_fresh_demo_forgets_everything(folder: DemoFolder) -> None:
    secret = folder.secret_key()
    folder.database.write_text("rows")
    (folder.path / "more").mkdir()
    folder.seeded.touch()
    folder.clear()
    assert not folder.seeded.exists()
    assert [entry.name for entry in folder.path.iterdir()] == ["lock"]
    assert folder.secret_key() != secret


def test_secrets_are_for_their_owner_alone(folder: DemoFolder) -> None:
    folder.secret_key()
    folder.webhook_key("inbound")
    for name in ("secret-key", "inbound.pem"):
        assert (folder.path / name).stat().st_mode & 0o077 == 0


def test_a_busy_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(show.PortBusy, match=f"Port {port} "):
            show.find_port(port)
    assert show.find_port(port) == port
