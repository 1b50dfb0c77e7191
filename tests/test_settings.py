"""The environment: every problem at once, each with what to do."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mailagent.bootstrap import open_model
from mailagent.demo.fakes.openai import OpenAIServer
from mailagent.demo.fakes.webhooks import WebhookKey
from mailagent.settings import SETTINGS, SettingsProblem, find_misspelt, load_settings
from mailagent.settings.types import parse_prompt
from mailagent.telemetry import log_lines
from tests.cast import SUPPORT


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "key"


STRONG = "kD3v-Qz81_hT0sWnRyX5bJmEo7uLcAfG"


def production(tmp_path: Path, **changes: str) -> dict[str, str]:
    """Return an environment that a shop could really run with."""
    public = WebhookKey(tmp_path / "webhook.pem").public_text()
    return {
        "MAILAGENT_ENV": "production",
        "DATABASE_URL": "postgresql+psycopg://mailagent@db.shop.test/mailagent",
        "SECRET_KEY": STRONG,
        "PUBLIC_URL": "https://agent.shop.test",
        "SUPPORT_ADDRESS": "support@shop.test",
        "MANAGER_EMAILS": "mona@shop.test",
        "OPENAI_API_KEY": "sk-x",
        "OPENAI_DAILY_BUDGET": "none",
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
        (
            {"MAILAGENT_ENV": "prod"},
            "MAILAGENT_ENV: 'prod' is not known; use one of development, production",
        ),
        ({"MAILAGENT_ROLE": "both"}, "MAILAGENT_ROLE: 'both' is not known"),
        ({"DATABASE_URL": "mysql://x/y"}, "use postgresql+psycopg:// or sqlite:///"),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL: cannot be read; write postgresql+psycopg://"),
        ({"DATABASE_URL": "postgresql+psycopg://u:p@h:port/x"}, "DATABASE_URL: cannot be read"),
        ({"DATABASE_URL": "sqlite://"}, "DATABASE_URL: is in memory"),
        ({"DATABASE_URL": "sqlite:///:memory:"}, "DATABASE_URL: is in memory"),
        ({"DATABASE_URL": "sqlite:///file:x?mode=memory&uri=true"}, "DATABASE_URL: is in memory"),
        ({"PUBLIC_URL": "shop.test"}, "PUBLIC_URL: 'shop.test' is not a whole address"),
        ({"PUBLIC_URL": "https://"}, "PUBLIC_URL: 'https://' is not a whole address"),
        (
            {"PUBLIC_URL": "https://shop.test/x?y=1"},
            "PUBLIC_URL: 'https://shop.test/x?y=1' has a ?",
        ),
        ({"PUBLIC_URL": "https://shop.test\r\nX: y"}, "is not a whole address"),
        ({"OPENAI_BASE_URL": "http://[::1"}, "OPENAI_BASE_URL: 'http://[::1' is not"),
        ({"SENDGRID_BASE_URL": "http://x:port"}, "SENDGRID_BASE_URL: 'http://x:port' is not"),
        ({"SENDGRID_BASE_URL": "http://x:99999"}, "SENDGRID_BASE_URL: 'http://x:99999' is not"),
        ({"DBOS_CONDUCTOR_URL": "console"}, "write one like wss://"),
        (
            {"DBOS_CONDUCTOR_METADATA_ONLY": "perhaps"},
            "DBOS_CONDUCTOR_METADATA_ONLY: 'perhaps' is not known; use one of no, yes",
        ),
        ({"OPENAI_API_KEY": "sk-\u00e9"}, "OPENAI_API_KEY: has characters that no key has"),
        ({"SENDGRID_API_KEY": "SG.x\nSG.y"}, "SENDGRID_API_KEY: has characters that no key has"),
        ({"OPENAI_MODEL": "gpt\nx"}, "OPENAI_MODEL: is over 200 characters or has line breaks"),
        ({"WORKER_ID": "w" * 201}, "WORKER_ID: is over 200 characters"),
        ({"WORKER_ID": "w\udcff"}, "WORKER_ID: is over 200 characters or has"),
        ({"REPLY_DOMAIN": "not a domain"}, "REPLY_DOMAIN: 'not a domain' is not a domain"),
        ({"REPLY_DOMAIN": "shop.test\r\nX: y"}, "REPLY_DOMAIN: "),
        ({"REPLY_DOMAIN": "localhost"}, "REPLY_DOMAIN: 'localhost' is not a domain"),
        ({"SUPPORT_ADDRESS": "Shop <s@shop.test>"}, "write it bare, like mona@shop.com"),
        ({"OPS_EMAILS": "o@shop.test,o"}, "OPS_EMAILS: 'o' is not a mail address"),
        ({"MANAGER_EMAILS": "mona"}, "MANAGER_EMAILS: 'mona' is not a mail address"),
        ({"TEAM_EMAILS": SUPPORT}, f"TEAM_EMAILS: {SUPPORT} is SUPPORT_ADDRESS"),
        ({"OPS_EMAILS": SUPPORT}, f"OPS_EMAILS: {SUPPORT} is SUPPORT_ADDRESS"),
        ({"SENDGRID_INBOUND_PUBLIC_KEY": "xyz"}, "SENDGRID_INBOUND_PUBLIC_KEY: "),
        ({"PAYMENT_GATEWAY": "cash"}, "PAYMENT_GATEWAY: 'cash' is not known"),
        ({"PAYMENT_GATEWAY": "stripe"}, "STRIPE_API_KEY: is not set"),
        ({"PAYMENT_GATEWAY": "shopify"}, "PAYMENT_GATEWAY is shopify, but ORDER_SOURCE is not"),
        ({"ORDER_SOURCE": "cash"}, "ORDER_SOURCE: 'cash' is not known; use one of "),
        ({"ORDER_SOURCE_URL": "orders"}, "ORDER_SOURCE_URL: 'orders' is not a whole address"),
        ({"ORDER_SOURCE_TOKEN": "a b"}, "ORDER_SOURCE_TOKEN: has characters that no key has"),
        ({"STRIPE_API_KEY": "sk_test 17"}, "STRIPE_API_KEY: has characters that no key has"),
        ({"STRIPE_API_BASE": "api.stripe.com"}, "STRIPE_API_BASE: 'api.stripe.com' is not a whole"),
        ({"ORDERS_API_TOKEN": "secret"}, "ORDERS_API_TOKEN: has a key shorter than 32"),
        ({"ORDERS_API_TOKEN": "a" * 40}, "ORDERS_API_TOKEN: has a key of few different"),
        ({"METRICS_TOKEN": "secret"}, "METRICS_TOKEN: has a key shorter than 32"),
        ({"LOG_FORMAT": "xml"}, "LOG_FORMAT: 'xml' is not known; use one of text, json"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT: 'coll"),
        ({"APPROVAL_EXPIRY_SECONDS": "-1"}, "APPROVAL_EXPIRY_SECONDS: '-1'"),
        ({"APPROVAL_EXPIRY_SECONDS": "a week"}, "not a whole number"),
        ({"APPROVAL_EXPIRY_SECONDS": "0"}, "not a whole number from 1"),
        ({"APPROVAL_EXPIRY_SECONDS": "315360001"}, "the most is ten years (315360000)"),
        ({"MAIL_OUTCOME_SECONDS": "9" * 5_000}, "MAIL_OUTCOME_SECONDS: '999"),
        ({"UNANSWERED_SECONDS": "\u0661"}, "not a whole number"),
        ({"RAW_MAIL_DAYS": "3651"}, "the most is ten years (3650)"),
        ({"MAILS_PER_HOUR": "0"}, "MAILS_PER_HOUR: '0' is not a whole number from 1"),
        ({"CONVERSATION_CONCURRENCY": "10001"}, "CONVERSATION_CONCURRENCY: '10001' is too much"),
        (
            {"REFUND_POLICY": "/nowhere/policy.toml"},
            "REFUND_POLICY: /nowhere/policy.toml cannot be",
        ),
        ({"REFUND_POLICY": "/"}, "name a TOML file"),
        (
            {"OPS_SECOND_FACTOR": "sms"},
            "OPS_SECOND_FACTOR: 'sms' is not known; use one of none, totp",
        ),
        (
            {"DRAFT_REPLIES": "some"},
            "DRAFT_REPLIES: 'some' is not known; use one of none, all, refunds",
        ),
        (
            {"DRAFT_REFUNDS": "refunds"},
            "DRAFT_REFUNDS: 'refunds' is not known; use one of none, all",
        ),
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
        {"MAILAGENT_SETTLES": "at_once"},
        {"MAILAGENT_CRASH_AT": "pay_refund:after"},
        {"SENDGRID_INBOUND_PUBLIC_KEY": ""},
        {"OPENAI_DAILY_BUDGET": ""},
        {"OPENAI_DAILY_BUDGET": "25"},
        {"OPENAI_DAILY_BUDGET": "no", "OPENAI_PRICES": "1,1,1"},
        {"SECRET_KEY": ""},
        {"SECRET_KEY": "a"},
        {"SECRET_KEY": STRONG[:31]},
        {"SECRET_KEY": "a" * 64},
        {"SECRET_KEY": "secret" * 10},
        {"SECRET_KEY": f"{STRONG},an old one"},
        {"MANAGER_EMAILS": "mona@shop.test,max@shop.example"},
        {"TEAM_EMAILS": "tess@shop.example"},
        {"TEAM_EMAILS": "tess@example.com"},
        {"OPS_EMAILS": "ops@shop.example"},
        {"OPS_EMAILS": "ops@mail.example.org"},
        {"REPLY_DOMAIN": "reply.shop.example"},
    ],
)
def test_production_takes_no_stand_in_and_no_open_door(
    tmp_path: Path, key_file: Path, changes: dict[str, str]
) -> None:
    with pytest.raises(SettingsProblem) as raised:
        load_settings(production(tmp_path, **changes), key_file)
    assert len(raised.value.problems) == 1


@pytest.mark.parametrize(
    ("changes", "usd"),
    [({}, None), ({"OPENAI_DAILY_BUDGET": "25", "OPENAI_PRICES": "1,1,1"}, 25)],
    ids=["none", "an amount"],
)
def test_production_takes_a_daily_budget_or_the_word_none(
    tmp_path: Path, key_file: Path, changes: dict[str, str], usd: int | None
) -> None:
    budget = load_settings(production(tmp_path, **changes), key_file).daily_budget
    assert (budget and budget.usd) == usd


def test_the_limits_themselves_are_taken(tmp_path: Path, key_file: Path) -> None:
    settings = load_settings(
        production(
            tmp_path,
            APPROVAL_EXPIRY_SECONDS="315360000",
            RAW_MAIL_DAYS="3650",
            CONVERSATION_CONCURRENCY="10000",
            SECRET_KEY=f"{STRONG},{STRONG[::-1]}",
            REPLY_DOMAIN="Reply.Bücher.Test",
            MANAGER_EMAILS="Mona@Bücher.Test",
            DATABASE_URL="sqlite:////var/lib/mailagent.db",
            DBOS_CONDUCTOR_URL="wss://console.shop.test",
        ),
        key_file,
    )
    assert settings.waits.approval_expiry.days == 3650
    assert settings.waits.raw_mail_kept.days == 3650
    assert settings.shop.reply_domain == "reply.xn--bcher-kva.test"
    assert settings.shop.manager_emails == ("mona@xn--bcher-kva.test",)


def test_a_password_is_never_told(key_file: Path) -> None:
    for url in ("postgresql+psycopg://u:hunter2@h:port/x", "mysql://u:hunter2@h/x", "hunter2"):
        with pytest.raises(SettingsProblem) as raised:
            load_settings({"DATABASE_URL": url, "OPENAI_API_KEY": "hunter2\nhunter2"}, key_file)
        assert "hunter2" not in str(raised.value)


def test_a_key_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for key_file, complaint in (
        (empty, "is empty"),
        (tmp_path, "cannot be created or read"),
        (tmp_path / "nowhere" / "key", "cannot be created or read"),
    ):
        with pytest.raises(SettingsProblem, match=complaint):
            load_settings({}, key_file)


def test_a_role_needs_only_its_own_secrets(tmp_path: Path, key_file: Path) -> None:
    web = production(tmp_path, MAILAGENT_ROLE="web", OPENAI_API_KEY="", SENDGRID_API_KEY="")
    web["OPENAI_DAILY_BUDGET"] = ""
    assert load_settings(web, key_file).runs_web
    worker = production(tmp_path, MAILAGENT_ROLE="worker", SENDGRID_INBOUND_PUBLIC_KEY="")
    assert not load_settings(worker, key_file).runs_web


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("return_window_days = -1", "return_window_days"),
        ("[limits\n", "is not TOML"),
        ("a = " + "[" * 100_000, "recursion"),
        ("a = \ud800", "utf-8"),
    ],
)
def test_a_wrong_policy_file_is_named(
    tmp_path: Path, key_file: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SettingsProblem) as raised:
        load_settings({"REFUND_POLICY": str(path)}, key_file)
    assert complaint in str(raised.value)
    assert "policy.toml" in str(raised.value)


def test_decisions_can_be_taken_back_for_five_minutes_in_production(
    tmp_path: Path, key_file: Path
) -> None:
    live, name = production(tmp_path), "APPROVAL_UNDO_SECONDS"
    for environ, seconds in (
        (live, 300),
        (live | {name: "0"}, 0),
        (live | {name: "90"}, 90),
        ({}, 0),
        ({name: "300"}, 300),
    ):
        assert load_settings(environ, key_file).waits.approval_undo_seconds == seconds
    with pytest.raises(SettingsProblem, match=name):
        load_settings({name: "-1"}, key_file)


def test_draft_mode_is_off_until_it_is_set(key_file: Path) -> None:
    off = load_settings({}, key_file)
    assert (off.draft_replies, off.policy.drafts_refunds) == ("none", False)
    environ = {"DRAFT_REPLIES": "refunds", "DRAFT_REFUNDS": "all", "DRAFT_REMINDER_SECONDS": "60"}
    on = load_settings(environ, key_file)
    assert (on.draft_replies, on.policy.drafts_refunds) == ("refunds", True)
    assert on.waits.draft_reminder_seconds == 60


@pytest.mark.parametrize(
    ("managers", "fine"),
    [
        ("mona@shop.example", False),
        ("mona@shop.example,max@shop.example", True),
    ],
)
def test_four_eyes_need_two_managers(
    tmp_path: Path, key_file: Path, managers: str, fine: bool
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('[four_eyes_above]\nUSD = "2000.00"\n')
    environ = {"REFUND_POLICY": str(path), "MANAGER_EMAILS": managers}
    if fine:
        assert load_settings(environ, key_file).policy.four_eyes_above == {"USD": 2_000_00}
        return
    with pytest.raises(SettingsProblem, match="MANAGER_EMAILS: names one manager"):
        load_settings(environ, key_file)


@pytest.mark.parametrize("others", ["", ",max@shop.example"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mona@shop.example", "mona@shop.example"),
        ("mona@shop.example", "mona+second@shop.example"),
        ("mona@shop.example", "Mona@SHOP.example."),
        ("mona.berg@gmail.com", "monaberg@googlemail.com"),
        ("mona@b\u00fccher.de", "mona@xn--bcher-kva.de"),
    ],
)
def test_one_mailbox_under_two_names_is_not_two_managers(
    key_file: Path, first: str, second: str, others: str
) -> None:
    environ = {"MANAGER_EMAILS": f"{first},{second}{others}"}
    with pytest.raises(SettingsProblem, match="are one mailbox"):
        load_settings(environ, key_file)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"STRIPE_API_KEY": "sk_test_17"}, "STRIPE_API_KEY: is a test key"),
        ({"STRIPE_API_KEY": "rk_test_17"}, "STRIPE_API_KEY: is a test key"),
        ({"STRIPE_API_BASE": "http://127.0.0.1:12111"}, "STRIPE_API_BASE: points at this machine"),
        ({"STRIPE_WEBHOOK_SECRET": ""}, "STRIPE_WEBHOOK_SECRET: without it we learn nothing"),
        ({"STRIPE_WEBHOOK_SECRET": "we_17"}, "STRIPE_WEBHOOK_SECRET: is not a signing secret"),
    ],
)
def test_in_production_stripe_must_move_money(
    tmp_path: Path, key_file: Path, changes: dict[str, str], words: str
) -> None:
    environ = production(
        tmp_path,
        PAYMENT_GATEWAY="stripe",
        STRIPE_API_KEY="rk_live_17",
        STRIPE_WEBHOOK_SECRET="whsec_new, whsec_old",
    )
    taken = load_settings(environ, key_file)
    assert taken.stripe_webhook_secrets == ("whsec_new", "whsec_old")
    with pytest.raises(SettingsProblem, match=words):
        load_settings(environ | changes, key_file)


@pytest.mark.parametrize(
    ("role", "needed"),
    [("web", "STRIPE_WEBHOOK_SECRET"), ("worker", "STRIPE_API_KEY")],
)
def test_each_process_needs_of_stripe_what_it_works_with(
    tmp_path: Path, key_file: Path, role: str, needed: str
) -> None:
    environ = production(tmp_path, PAYMENT_GATEWAY="stripe", MAILAGENT_ROLE=role)
    value = {"STRIPE_WEBHOOK_SECRET": "whsec_17", "STRIPE_API_KEY": "rk_live_17"}[needed]
    assert load_settings(environ | {needed: value}, key_file).payment_gateway == "stripe"
    with pytest.raises(SettingsProblem, match=needed):
        load_settings(environ, key_file)


def test_the_version_of_stripe_is_the_same_everywhere() -> None:
    root = Path(__file__).parent.parent
    pinned = "stripe==16.1.0"
    for name in (
        "pyproject.toml",
        "tests/requirements.txt",
        "docs/configure.md",
        "mailagent/adapters/stripe/provider.py",
    ):
        assert pinned in (root / name).read_text("utf-8"), name


@pytest.mark.parametrize("language", ["de", "fr", "es", "de-CH", "en_GB"])
def test_the_language_for_customers_of_whom_nothing_is_known_can_be_set(
    language: str, key_file: Path
) -> None:
    settings = load_settings({"DEFAULT_LANGUAGE": language}, key_file)
    assert settings.shop.locale_for(None) == language.replace("-", "_")


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("sv", "DEFAULT_LANGUAGE: 'sv' has no handed_over, "),
        ("deutsch", "'deutsch' is not a language"),
    ],
)
def test_a_language_that_customers_cannot_be_written_to_in_is_no_default(
    language: str, told: str, key_file: Path
) -> None:
    with pytest.raises(SettingsProblem) as problem:
        load_settings({"DEFAULT_LANGUAGE": language}, key_file)
    (text,) = problem.value.problems
    assert told in text


def test_a_broken_template_of_the_shop_is_a_problem_at_start(
    key_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "de").mkdir()
    (tmp_path / "de" / "receipt.txt").write_text("Betrag:\n{{ amonut }}")
    with pytest.raises(SettingsProblem) as problem:
        load_settings({"MAIL_TEMPLATES": str(tmp_path), "DEFAULT_LANGUAGE": "xx"}, key_file)
    assert [each.partition(":")[0] for each in problem.value.problems] == [
        "DEFAULT_LANGUAGE",
        "MAIL_TEMPLATES",
    ]
    assert "de/receipt.txt, line 2: 'amonut' is undefined" in problem.value.problems[1]


def test_the_console_s_package_has_the_version_of_dbos_everywhere(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    pinned = re.search(r"^dbos==(\S+)", (root / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    for name in ("pyproject.toml", "docs/configure.md"):
        assert f"dbos[enterprise]=={pinned[1]}" in (root / name).read_text(), name
    assert f"dbos-enterprise=={pinned[1]}" in (root / "tests" / "requirements.txt").read_text()
    told = check_beside_another_version_of_the_console_s_package(tmp_path)
    assert "DBOS_CONDUCTOR_KEY is set, but dbos-enterprise is 0.1" in told
    assert f"pip install 'dbos[enterprise]=={pinned[1]}'" in told


def check_beside_another_version_of_the_console_s_package(folder: Path) -> str:
    """Return what `flask check` says in a process that finds another version of it first."""
    package = folder / "dbos_enterprise-0.1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: dbos-enterprise\nVersion: 0.1\n"
    )
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "wsgi", "check"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": path, "DBOS_CONDUCTOR_KEY": "k" * 40},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_a_web_process_needs_no_console(tmp_path: Path, key_file: Path) -> None:
    environ = production(tmp_path, MAILAGENT_ROLE="web", DBOS_CONDUCTOR_KEY="k" * 40)
    assert load_settings(environ, key_file).conductor_key == "k" * 40


@pytest.mark.parametrize(
    ("environ", "log_format"),
    [
        ({}, "text"),
        ({"MAILAGENT_ENV": "production"}, "json"),
        ({"MAILAGENT_ENV": "production", "LOG_FORMAT": "text"}, "text"),
        ({"LOG_FORMAT": "json"}, "json"),
        ({"MAILAGENT_ENV": "prod", "LOG_FORMAT": "xml"}, "text"),
    ],
    ids=["usual", "production", "text in production", "json", "wrong settings"],
)
def test_the_log_has_a_format_also_where_the_settings_are_wrong(
    environ: dict[str, str], log_format: str
) -> None:
    assert log_lines.format_of(environ) == log_format


def test_every_setting_of_the_reference_has_a_group_and_a_description() -> None:
    listed = {each.name: each for each in SETTINGS}
    assert all(each.group and each.meaning for each in listed.values())
    groups = [listed[name].group for name in ("WORKER_ID", "STRIPE_API_KEY", "SHOP_KNOWLEDGE")]
    assert groups == ["Process", "Payments", "Shop"]
    assert "MAILAGENT_CRASH_AT" not in listed


def test_a_setting_that_is_wrong_by_itself_hides_no_other_problem(
    tmp_path: Path, key_file: Path
) -> None:
    environ = production(tmp_path, OPENAI_API_KEY="sk-\u00e9", SECRET_KEY="")
    with pytest.raises(SettingsProblem) as raised:
        load_settings(environ, key_file)
    names = [each.partition(":")[0] for each in raised.value.problems]
    assert names == ["OPENAI_API_KEY", "SECRET_KEY"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MANAGER_EMAIL", "MANAGER_EMAILS"),
        ("MANAGERS_EMAILS", "MANAGER_EMAILS"),
        ("manager_emails", "MANAGER_EMAILS"),
        ("SENDGRID_KEY", "SENDGRID_API_KEY"),
        ("OPENAI_APIKEY", "OPENAI_API_KEY"),
        ("DATABASE_URI", "DATABASE_URL"),
        ("MAILAGENT_ROLES", "MAILAGENT_ROLE"),
        ("MAILAGENT_ENVIRONMENT", "MAILAGENT_ENV"),
        ("OPENAI_MODEL_OF_THE_SHOP", "OPENAI_MODEL"),
        ("SUPPORT_ADRESS", "SUPPORT_ADDRESS"),
        ("SUPPORT_EMAIL", "SUPPORT_ADDRESS"),
        ("STRIPE_SECRET_KEY", "STRIPE_API_KEY"),
        ("OPENAI_BUDGET", "OPENAI_DAILY_BUDGET"),
        ("APPROVAL_UNDO", "APPROVAL_UNDO_SECONDS"),
        ("APPROVAL_UNDO_MINUTES", "APPROVAL_UNDO_SECONDS"),
        ("RUN_HOURS", "RUN_DAYS"),
        ("OWNER_EMAILS", "REPORT_EMAILS"),
        ("OPERATOR_EMAIL", "OPS_EMAILS"),
        ("OPENAI_TOKEN", "OPENAI_API_KEY"),
        ("MAILAGENT_DATABASE_URL", "DATABASE_URL"),
        ("MAILAGENT_MANAGER_EMAILS", "MANAGER_EMAILS"),
        ("MANAGERS", "MANAGER_EMAILS"),
        ("OPERATORS", "OPS_EMAILS"),
        ("SENDGRID_PUBLIC_KEY", "SENDGRID_EVENTS_PUBLIC_KEY"),
        ("SENDGRID_PARSE_PUBLIC_KEY", "SENDGRID_INBOUND_PUBLIC_KEY"),
        ("SENDGRID_WEBHOOK_KEY", "SENDGRID_EVENTS_PUBLIC_KEY"),
        ("SENDGRID_VERIFICATION_KEY", "SENDGRID_EVENTS_PUBLIC_KEY"),
        ("STRIPE_SIGNING_SECRET", "STRIPE_WEBHOOK_SECRET"),
        ("STRIPE_WEBHOOK_KEY", "STRIPE_WEBHOOK_SECRET"),
        ("ORDER_SOURCE_KEY", "ORDER_SOURCE_TOKEN"),
        ("SECOND_FACTOR", "OPS_SECOND_FACTOR"),
        ("SECOND_FACTORS", "OPS_SECOND_FACTOR"),
        ("DRAFT_REPLY", "DRAFT_REPLIES"),
        ("DRAFT_REPLYS", "DRAFT_REPLIES"),
        ("REFUND_POLICIES", "REFUND_POLICY"),
        ("OPENAI_API_URL", "OPENAI_BASE_URL"),
        ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
        ("SENDGRID_API_URL", "SENDGRID_BASE_URL"),
        ("METRICS_API_TOKEN", "METRICS_TOKEN"),
        ("SETTLE_DAYS", "SETTLEMENT_DAYS"),
        ("APPROVAL_EXPIRATION_SECONDS", "APPROVAL_EXPIRY_SECONDS"),
        ("SESSION_SECONDS", "OPS_SESSION_SECONDS"),
        ("DEFAULT_LANG", "DEFAULT_LANGUAGE"),
        ("SUPPORT_ADDR", "SUPPORT_ADDRESS"),
        ("LOG_FMT", "LOG_FORMAT"),
        ("LOGGING_FORMAT", "LOG_FORMAT"),
        ("CONTACT_FORM_SENDER_EMAILS", "CONTACT_FORM_SENDERS"),
        ("OPS_MAIL", "OPS_EMAILS"),
        ("MAIL_ADYS", "MAIL_DAYS"),
        ("RUN_DAYZ", "RUN_DAYS"),
        ("WORKRE_ID", "WORKER_ID"),
        ("MAILS_HOUR", "MAILS_PER_HOUR"),
        ("MAILS_PER_MINUTE", "MAILS_PER_HOUR"),
        ("UNANSWERED_HOURS", "UNANSWERED_SECONDS"),
        ("MANAGER_EMAILS", None),
        ("MAILAGENT_DEMO", None),
        ("MAILAGENT_PORT", None),  # Kubernetes sets it for a service named mailagent
        ("MAILAGENT_SERVICE_HOST", None),
        ("MAILAGENT_PORT_8000_TCP_ADDR", None),
        ("MAILAGENT_DATABASE_PORT", None),
        ("MAILAGENT_VERSION", None),
        ("MAILAGENT_HOME", None),
        ("MAILAGENT_URL", None),
        ("MAILAGENT_KEY", None),
        ("KUBERNETES_SERVICE_PORT_HTTPS", None),
        ("PYTHONUNBUFFERED", None),
        ("PGHOST", None),
        ("DBOS__CONDUCTOR_KEY", None),
        ("OPENAI_ORG_ID", None),
        ("OPENAI_PROJECT_ID", None),
        ("OPENAI_LOG", None),
        ("OPENAI_ADMIN_KEY", None),
        ("OPENAI_API_TYPE", None),
        ("OPENAI_PORT", None),
        ("OPENAI_HOURS", None),
        ("STRIPE_API_VERSION", None),
        ("STRIPE_PUBLIC_KEY", None),
        ("STRIPE_WEBHOOK_SERVICE_HOST", None),
        ("AWS_SECRET_KEY", None),
        ("APP_SECRET_KEY", None),
        ("TEST_DATABASE_URL", None),
        ("AWS_SECRET_ACCESS_KEY", None),
        ("FLASK_SECRET_KEY", None),
        ("ADMIN_EMAIL", None),
        ("GIT_AUTHOR_EMAIL", None),
        ("EMAIL", None),
        ("MAIL", None),
        ("MAIL_HOST", None),
        ("DATABASE_HOST", None),
        ("DATABASE_USER", None),
        ("DATABASE_PRIVATE_URL", None),
        ("WEBHOOK_URL", None),
        ("LOG_LEVEL", None),
        ("WORKER_COUNT", None),
        ("OTEL_EXPORTER_OTLP_HEADERS", None),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", None),
        ("POSTGRES_PASSWORD", None),
        ("WORKERS", None),
        ("EMAILS", None),
        ("ORDERS", None),
        ("PORT", None),
        ("PATH", None),
    ],
)
def test_a_variable_that_looks_like_a_setting_is_found(name: str, meant: str | None) -> None:
    assert find_misspelt([name]).get(name) == meant


@pytest.mark.parametrize(
    ("url", "fits"), [("http://orders.shop.test", False), ("https://orders.shop.test/api", True)]
)
def test_in_production_an_order_source_is_asked_over_https(
    url: str, fits: bool, tmp_path: Path, key_file: Path
) -> None:
    source = {"ORDER_SOURCE": "http", "ORDER_SOURCE_URL": url, "ORDER_SOURCE_TOKEN": STRONG}
    environ = production(tmp_path, **source)
    if fits:
        assert load_settings(environ, key_file).order_source_url == url
        return
    with pytest.raises(SettingsProblem, match="ORDER_SOURCE_URL: must be an https address"):
        load_settings(environ, key_file)
    assert load_settings(environ | {"MAILAGENT_ROLE": "web"}, key_file).order_source == "http"


def test_an_order_source_needs_an_address_and_a_token(key_file: Path) -> None:
    with pytest.raises(SettingsProblem) as raised:
        load_settings({"ORDER_SOURCE": "http"}, key_file)
    assert [each.partition(":")[0] for each in raised.value.problems] == [
        "ORDER_SOURCE_URL",
        "ORDER_SOURCE_TOKEN",
    ]


def test_an_owner_says_how_long_a_slow_model_may_take() -> None:
    server = OpenAIServer(latency_seconds=2)
    server.start()
    try:
        settings = load_settings(
            {
                "SECRET_KEY": "a key of a test that is long enough",
                "OPENAI_BASE_URL": f"{server.url}/v1",
                "OPENAI_TIMEOUT_SECONDS": "1",
            }
        )
        asked = [{"role": "user", "content": "Are you there?"}]
        outcome = open_model(settings, "k", "small").ask("", asked, [], "", "")
    finally:
        server.stop()
    assert (outcome["kind"], "within 1 s" in outcome["why"]) == ("retry", True)


def test_an_empty_prompt_is_refused(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(" \n")
    with pytest.raises(ValueError, match="is empty"):
        parse_prompt(str(prompt))
