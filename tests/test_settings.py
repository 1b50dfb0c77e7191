"""The environment: every problem at once, each with what to do."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mailagent.demo.webhook_key import WebhookKey
from mailagent.settings import SettingsProblem, load_settings


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "key"


def production(tmp_path: Path, **changes: str) -> dict[str, str]:
    """Return an environment that a shop could really run with."""
    public = WebhookKey(tmp_path / "webhook.pem").public_text()
    return {
        "MAILAGENT_ENV": "production",
        "DATABASE_URL": "postgresql+psycopg://mailagent@db.shop.test/mailagent",
        "SECRET_KEY": "a long random text",
        "PUBLIC_URL": "https://agent.shop.test",
        "SUPPORT_ADDRESS": "support@shop.test",
        "MANAGER_EMAILS": "mona@shop.test",
        "OPENAI_API_KEY": "sk-x",
        "SENDGRID_API_KEY": "SG.x",
        "SENDGRID_INBOUND_PUBLIC_KEY": public,
        "SENDGRID_EVENTS_PUBLIC_KEY": public,
    } | changes


def test_nothing_has_to_be_set_in_development(key_file: Path) -> None:
    settings = load_settings({}, key_file)
    assert settings.database_url == "sqlite:///mailagent.db"
    assert settings.role == "all"
    assert settings.shop.reply_domain == "shop.example"


def test_the_development_key_is_made_once_for_its_owner_only(key_file: Path) -> None:
    first = load_settings({}, key_file)
    assert load_settings({}, key_file).secret_keys == first.secret_keys
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert len(first.secret_keys[0]) >= 40


def test_lists_are_read_newest_first(key_file: Path) -> None:
    settings = load_settings(
        {"SECRET_KEY": "new, old", "MANAGER_EMAILS": "A@x.test, b@x.test"}, key_file
    )
    assert settings.secret_keys == ("new", "old")
    assert settings.shop.manager_emails == ("a@x.test", "b@x.test")
    assert settings.shop.team_emails == settings.shop.manager_emails


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"MAILAGENT_ENV": "prod"}, "MAILAGENT_ENV is 'prod'; use one of development, production"),
        ({"MAILAGENT_ROLE": "both"}, "MAILAGENT_ROLE is 'both'"),
        ({"DATABASE_URL": "mysql://x/y"}, "use postgresql+psycopg:// or sqlite:///"),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL: "),
        ({"PUBLIC_URL": "shop.test"}, "PUBLIC_URL is 'shop.test'"),
        ({"MANAGER_EMAILS": "mona"}, "MANAGER_EMAILS: 'mona' is not a mail address"),
        ({"SENDGRID_INBOUND_PUBLIC_KEY": "xyz"}, "SENDGRID_INBOUND_PUBLIC_KEY: "),
        ({"PAYMENT_GATEWAY": "cash"}, "PAYMENT_GATEWAY is 'cash'"),
        ({"APPROVAL_EXPIRY_SECONDS": "-1"}, "APPROVAL_EXPIRY_SECONDS: '-1'"),
        ({"APPROVAL_EXPIRY_SECONDS": "a week"}, "not a whole number"),
        ({"REFUND_POLICY": "/nowhere/policy.toml"}, "REFUND_POLICY: "),
        ({"MAILAGENT_ROLE": "worker"}, "SQLite is for one process"),
    ],
)
def test_a_wrong_setting_is_named(environ: dict[str, str], complaint: str, key_file: Path) -> None:
    with pytest.raises(SettingsProblem) as raised:
        load_settings(environ, key_file)
    assert complaint in str(raised.value)
    assert len(raised.value.problems) == 1


def test_every_problem_is_told_at_once(key_file: Path) -> None:
    with pytest.raises(SettingsProblem) as raised:
        load_settings(
            {"MAILAGENT_ENV": "production", "PUBLIC_URL": "http://localhost:8000"}, key_file
        )
    text = str(raised.value)
    for name in (
        "SECRET_KEY", "MANAGER_EMAILS", "SUPPORT_ADDRESS", "PUBLIC_URL", "OPENAI_API_KEY",
        "SENDGRID_API_KEY", "SENDGRID_INBOUND_PUBLIC_KEY", "SENDGRID_EVENTS_PUBLIC_KEY",
    ):  # fmt: skip
        assert name in text
    assert not key_file.exists()


def test_a_whole_production_environment_is_taken(tmp_path: Path, key_file: Path) -> None:
    assert load_settings(production(tmp_path), key_file).production


@pytest.mark.parametrize(
    "changes",
    [
        {"OPENAI_BASE_URL": "http://127.0.0.1:8099/v1"},
        {"SENDGRID_BASE_URL": "http://localhost:8100"},
        {"PUBLIC_URL": "http://agent.shop.test"},
        {"MAILAGENT_DEMO": "http://127.0.0.1:1"},
        {"MAILAGENT_CRASH_AT": "pay_refund:after"},
        {"SENDGRID_INBOUND_PUBLIC_KEY": ""},
        {"SECRET_KEY": ""},
    ],
)
def test_production_takes_no_stand_in_and_no_open_door(
    tmp_path: Path, key_file: Path, changes: dict[str, str]
) -> None:
    with pytest.raises(SettingsProblem) as raised:
        load_settings(production(tmp_path, **changes), key_file)
    assert len(raised.value.problems) == 1


def test_a_role_needs_only_its_own_secrets(tmp_path: Path, key_file: Path) -> None:
    web = production(tmp_path, MAILAGENT_ROLE="web", OPENAI_API_KEY="", SENDGRID_API_KEY="")
    assert load_settings(web, key_file).runs_web
    worker = production(tmp_path, MAILAGENT_ROLE="worker", SENDGRID_INBOUND_PUBLIC_KEY="")
    assert not load_settings(worker, key_file).runs_web


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("return_window_days = 'a month'", "return_window_days"),
        ("return_window_days = -1", "return_window_days"),
        ("window = 3", "unknown key 'window'"),
        ("[limits]\nUSD = 1000", "limits.USD"),
        ("[limits]\nusd = '1000.00'", "limits.usd"),
        ("limits = 3", "must be a table"),
        ("[limits\n", "line 1"),
    ],
)
def test_a_wrong_policy_file_is_named(
    tmp_path: Path, key_file: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(SettingsProblem) as raised:
        load_settings({"REFUND_POLICY": str(path)}, key_file)
    assert complaint in str(raised.value)
    assert "policy.toml" in str(raised.value)


def test_a_policy_file_is_read(tmp_path: Path, key_file: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('return_window_days = 14\n[limits]\nEUR = "250.00"\nJPY = "30000"\n')
    policy = load_settings({"REFUND_POLICY": str(path)}, key_file).policy
    assert policy.return_window_days == 14
    assert dict(policy.limits) == {"EUR": 250_00, "JPY": 30_000}
