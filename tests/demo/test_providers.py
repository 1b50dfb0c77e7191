"""What the demo's app sees of the machine that it runs on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mailagent.demo import shop, show
from mailagent.demo.fakes.providers import Providers
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


def test_nothing_that_is_set_up_for_real_reaches_the_app(tmp_path: Path) -> None:
    environment = Providers(tmp_path, 8000, REAL).environment()
    assert environment["PATH"] == "/bin"
    assert "real" not in environment.values()
    for name in REAL.keys() - {"PATH"}:
        assert environment.get(name) != REAL[name]


def test_the_app_accepts_its_settings(tmp_path: Path) -> None:
    environment = Providers(tmp_path, 8000, REAL).environment()
    settings = load_settings(environment)
    assert settings.demo_url
    assert settings.sendgrid_inbound_keys
    assert settings.sendgrid_events_keys
    assert settings.database_url.startswith("sqlite:///")
    assert {setting.name for setting in SETTINGS} >= {"DATABASE_URL", "PUBLIC_URL"}


def test_the_operator_of_the_demo_may_log_in(tmp_path: Path) -> None:
    settings = load_settings(Providers(tmp_path, 8000, REAL).environment())
    assert settings.ops_emails == shop.OPERATORS


def test_with_a_key_the_real_model_is_asked_and_mail_stays_here(tmp_path: Path) -> None:
    environ = {**REAL, "OPENAI_API_KEY": "sk-real", "OPENAI_MODEL": "gpt-5.4-mini"}
    environment = Providers(tmp_path, 8000, environ).environment()
    assert environment["OPENAI_API_KEY"] == "sk-real"
    assert environment["OPENAI_BASE_URL"] == "https://models.example/v1"
    assert environment["OPENAI_MODEL"] == "gpt-5.4-mini"
    assert environment["SENDGRID_BASE_URL"].startswith("http://127.0.0.1:")


def test_a_busy_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(show.PortBusy, match=f"Port {port} "):
            show.find_port(port)
    assert show.find_port(port) == port


def test_settings_are_obeyed_or_named_with_the_reason_why_not(tmp_path: Path) -> None:
    given = {**REAL, "DRAFT_REPLIES": "all", "DEFAULT_LANGUAGE": "de", "OPENAI_MODEL": "m"}
    scripted = Providers(tmp_path, 8000, given)
    assert scripted.environment()["DRAFT_REPLIES"] == "all"
    assert (
        scripted.environment()["FLASK_SKIP_DOTENV"] == "1"
    )  # else .env would bring the refused ones
    obeyed, of_model, refused = scripted.tell_settings()
    assert obeyed == "Your settings hold: DEFAULT_LANGUAGE, DRAFT_REPLIES."
    assert of_model == (
        "Not used: OPENAI_BASE_URL, OPENAI_MODEL (without OPENAI_API_KEY the model is scripted)."
    )
    assert refused.startswith(
        "Not used: DATABASE_URL, DBOS_CONDUCTOR_KEY, GUNICORN_CMD_ARGS, MAILAGENT_ENV, OPS_EMAILS, OTEL_"
    )
    assert "nothing real is touched" in refused
    real = Providers(tmp_path, 8000, {"OPENAI_API_KEY": "sk", "OPENAI_MODEL": "m"})
    assert real.tell_settings() == ["Your settings hold: OPENAI_API_KEY, OPENAI_MODEL."]
    assert Providers(tmp_path, 8000, {"PATH": "/bin"}).tell_settings() == []


def test_no_openai_variable_reaches_an_app_whose_model_is_scripted(tmp_path: Path) -> None:
    given = {"OPENAI_LOG": "debug", "OPENAI_ORG_ID": "o", "OPENAI_CUSTOM_HEADERS": "a: b"}
    own = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"}
    scripted = Providers(tmp_path, 8000, given).environment()
    assert {name for name in scripted if name.startswith("OPENAI_")} == own
    real = Providers(tmp_path, 8000, {**given, "OPENAI_API_KEY": "sk"}).environment()
    assert given.items() <= real.items()


def test_what_is_no_setting_of_the_demo_is_named(tmp_path: Path) -> None:
    given = {
        "MANAGER_EMAIL": "me@shop.example",
        "PORT": "8080",
        "FLASK_RUN_PORT": "1",
        "PATH": "/bin",
    }
    assert Providers(tmp_path, 8000, given).tell_settings() == [
        "Not used: MANAGER_EMAIL (no such setting: did you mean MANAGER_EMAILS?).",
        "Not used: FLASK_RUN_PORT, PORT (give the port by --port).",
    ]


def test_every_setting_of_the_environment_is_obeyed_or_named(tmp_path: Path) -> None:
    given = {setting.name: "x" for setting in SETTINGS}
    told = " ".join(Providers(tmp_path, 8000, given).tell_settings())
    assert [name for name in given if name not in told] == []


def test_every_variable_that_the_app_does_not_get_is_named_with_the_reason(tmp_path: Path) -> None:
    dropped = (
        "DBOS__APPVERSION FLASK_DEBUG GUNICORN_CMD_ARGS MAILAGENT_COLOUR OTEL_SERVICE_NAME"
        " STRIPE_ACCOUNT WEB_CONCURRENCY"
    ).split()
    of_flask = ("FLASK_APP", "FLASK_DEMO_PORT", "FLASK_RUN_FROM_CLI", "FLASK_SKIP_DOTENV")
    providers = Providers(tmp_path, 8000, dict.fromkeys((*dropped, *of_flask, "PATH"), "1"))
    (told,) = providers.tell_settings()
    assert told.startswith(f"Not used: {', '.join(dropped)} (the demo plays shop")
    assert providers.environment().keys().isdisjoint(dropped)
    assert Providers(tmp_path, 8000, dict.fromkeys(dropped, " ")).tell_settings() == []
