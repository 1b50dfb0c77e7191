"""`flask setup`, played as a newcomer would: from an empty folder to the test mail that came back."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailagent.adapters import env_file
from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.openai import MODEL_NAME, OpenAIServer
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import WebhookKey, WebhookSender
from tests.cast import MONA, OLGA, SUPPORT, TESS
from tests.databases import ROOT
from tests.harness import wait_until
from tests.ports import choose_port
from tests.processes import Web, base_environment

# As docs/configure.md says it; the seconds are those of the machine, without the time to think.
QUESTIONS, MOST_SECONDS = 17, 60
DOMAIN = "help.shop.example"  # whose mail SendGrid takes
SECRETS = ("sk-of-the-model", "SG.of-the-mail", "rk_test_of-the-money")


@dataclass
class Newcomer:
    """A folder with nothing in it, an account at each provider, and the address of the app to be."""

    folder: Path
    url: str
    inbound_key: WebhookKey
    events_key: WebhookKey
    environ: Mapping[str, str]

    @property
    def file(self) -> Path:
        return self.folder / ".env"

    def answers(self, **changes: str) -> dict[str, str]:
        """Return the answers to all questions, in their order."""
        return {
            "PUBLIC_URL": self.url,
            "MAILAGENT_ENV": "",
            "DATABASE_URL": f"sqlite:///{self.folder}/shop.db",
            "SUPPORT_ADDRESS": SUPPORT,
            "REPLY_DOMAIN": "",
            "MANAGER_EMAILS": MONA,
            "TEAM_EMAILS": TESS,
            "OPS_EMAILS": OLGA,
            "OPENAI_MODEL": MODEL_NAME,
            "OPENAI_API_KEY": SECRETS[0],
            "OPENAI_PRICES": "",
            "OPENAI_DAILY_BUDGET": "",
            "PAYMENT_GATEWAY": "",
            "SENDGRID_BASE_URL": "",
            "SENDGRID_API_KEY": SECRETS[1],
            "SENDGRID_INBOUND_PUBLIC_KEY": self.inbound_key.public_text(),
            "SENDGRID_EVENTS_PUBLIC_KEY": self.events_key.public_text(),
            "it runs": "",
        } | changes

    def start(self, **files: int) -> subprocess.Popen[str]:
        pipe: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "flask", "--app", str(ROOT / "wsgi.py"), "setup"],
            cwd=self.folder,
            env=dict(self.environ),
            text=True,
            start_new_session=True,  # getpass would find the terminal of the tests
            **(pipe | files),
        )

    def pipe(self, answers: Mapping[str, str]) -> tuple[int, str]:
        """Run the command with these answers on its standard input; return its code and what it said."""
        process = self.start()
        said, _ = process.communicate("".join(f"{each}\n" for each in answers.values()), 60)
        return process.returncode, said


def answering(status: int, value: object) -> LocalServer:
    """Return a provider that answers everything alike."""

    def answer(_request: Request) -> Answer:
        return Answer(status, value)

    return LocalServer({}, answer)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    port = choose_port()
    url = f"http://127.0.0.1:{port}"
    keys = WebhookKey(tmp_path / "inbound.pem"), WebhookKey(tmp_path / "events.pem")
    mailboxes, stripe = Mailboxes(), answering(200, {"object": "list", "data": []})
    servers = OpenAIServer(), SendGridServer(mailboxes, f"support@{DOMAIN}"), stripe
    sender = WebhookSender(mailboxes, url, *keys)
    environ = {
        **base_environment(),
        "OPENAI_BASE_URL": f"{servers[0].url}/v1",
        "SENDGRID_BASE_URL": servers[1].url,
        "STRIPE_API_BASE": stripe.url,
    }
    folder = tmp_path / "shop"
    folder.mkdir()
    for each in (*servers, sender):
        each.start()
    yield Newcomer(folder, url, *keys, environ)
    for each in (*servers, sender):
        each.stop()


def test_from_nothing_to_the_test_mail_that_came_back(newcomer: Newcomer) -> None:
    began, process = time.monotonic(), newcomer.start()
    assert process.stdin
    process.stdin.write("".join(f"{each}\n" for each in newcomer.answers().values()))
    process.stdin.close()
    last = "SENDGRID_EVENTS_PUBLIC_KEY"
    wait_until(lambda: last in env_file.read(newcomer.file), 60, "the file to be written")
    settings = env_file.read(newcomer.file)
    port = int(newcomer.url.rpartition(":")[2])
    app = Web("app", {**newcomer.environ, **settings}, newcomer.folder, "all", port=port)
    app.start()
    try:
        assert process.stdout
        said = process.stdout.read()
        assert process.wait(60) == 0, said
    finally:
        app.stop()
    for told in (
        "PUBLIC_URL: URL at which managers and SendGrid reach the app; at localhost no mail comes in [",
        "input,cached,output, as 0.75,0.075,4.50; empty for later: ",
        "PAYMENT_GATEWAY: stripe pays refunds; ledger only records them, and you pay [ledger]",
        "SENDGRID_API_KEY: SendGrid key with the permission Mail Send",
        "SENDGRID_INBOUND_PUBLIC_KEY: Public key from step 3; empty for later",
        "SENDGRID_EVENTS_PUBLIC_KEY: Verification key from step 4; empty for later",
        f"    {DOMAIN}.   MX   10   mx.sendgrid.net.",
        f"ALL mail of {DOMAIN} then goes to SendGrid",
        f"Authenticate Your Domain: shop.example, and {DOMAIN}.",
        f"Let {SUPPORT} forward its mail to support@{DOMAIN}.",
        f"URL: {newcomer.url}/webhooks/sendgrid/inbound",
        f"curl {newcomer.environ['SENDGRID_BASE_URL']}/v3/user/webhooks/security/policies -H",
        f"/v3/user/webhooks/parse/settings/{DOMAIN} -H",
        """-d '{"security_policy": "ID", "send_raw": true,""",
        f"URL: {newcomer.url}/webhooks/sendgrid/events",
        "ok: the model scripted-demo-model answers",
        "ok: it came back and was stored",
        "ok: delivery events arrive",
        "Press Return when it runs, and a test mail is sent. Or type later. ",
        "mailagent is set up.",
    ):
        assert told in said
    assert "INFO" not in said.partition("Start mailagent")[0], "questions stand alone"
    seconds, asked = time.monotonic() - began, len(re.findall(r"  [A-Z_]{8,}: ", said))
    print(f"{asked} questions, {seconds:.0f} s")  # noqa: T201 - shown by -s
    assert asked == QUESTIONS
    assert seconds < MOST_SECONDS
    assert settings["REPLY_DOMAIN"] == DOMAIN
    assert settings["MAILAGENT_ENV"] == "development"
    assert len(settings["SECRET_KEY"]) >= 40
    assert stat.S_IMODE(newcomer.file.stat().st_mode) == 0o600
    assert not any(secret in said for secret in (*SECRETS, settings["SECRET_KEY"]))


def test_it_can_be_run_again_and_keeps_what_is_there(newcomer: Newcomer) -> None:
    newcomer.file.write_text("# the shop's own\nLOG_FORMAT=json\nSECRET_KEY=from-before\n")
    first = newcomer.answers(**{"it runs": "later"})
    assert newcomer.pipe(first)[0] == 0
    before = newcomer.file.read_text()
    assert before.startswith("# the shop's own\nLOG_FORMAT=json\nSECRET_KEY=from-before\n")
    code, said = newcomer.pipe(dict.fromkeys(first, "") | {"it runs": "later"})
    assert code == 0, said
    assert newcomer.file.read_text() == before
    assert f"Managers who decide refunds, comma-separated [{MONA}]" in said
    assert "OpenAI key [kept]" in said
    assert "Later: flask check --send-test-mail" in said
    assert not any(secret in said for secret in SECRETS)


def test_an_answer_that_changes_is_the_one_that_is_tried(newcomer: Newcomer) -> None:
    sent = []

    def answer(request: Request) -> Answer:
        if request.path.endswith("mail/send"):
            sent.append(json.loads(request.body))
            return Answer(401, {"errors": [{"message": "no"}]})
        return Answer(200, {"scopes": ["mail.send"]})

    server = LocalServer({}, answer)
    server.start()
    # As on a shop's machine: Flask loads the file into the environment.
    loading = {each: text for each, text in newcomer.environ.items() if each != "FLASK_SKIP_DOTENV"}
    newcomer.environ = {**loading, "SENDGRID_BASE_URL": server.url}
    first = newcomer.answers(**{"it runs": "later"})
    assert newcomer.pipe(first)[0] == 0
    changed = {"SUPPORT_ADDRESS": "other@shop.example", "it runs": ""}
    code, said = newcomer.pipe(dict.fromkeys(first, "") | changed)
    server.stop()
    assert code == 1, said
    assert "SUPPORT_ADDRESS is also set" not in said
    assert [each["from"]["email"] for each in sent] == ["other@shop.example"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"PUBLIC_URL": "agent.shop.example"}, "problem: PUBLIC_URL: "),
        ({"MAILAGENT_ENV": "prod"}, "use one of development, production"),
        ({"DATABASE_URL": "postgresql+psycopg://nobody@127.0.0.1:9/none"}, "cannot be used"),
        ({"SUPPORT_ADDRESS": ""}, "problem: SUPPORT_ADDRESS: an answer is needed"),
        ({"MANAGER_EMAILS": "mona"}, "problem: MANAGER_EMAILS: "),
        ({"MANAGER_EMAILS": SUPPORT}, f"problem: MANAGER_EMAILS: {SUPPORT} is SUPPORT_ADDRESS"),
        ({"MAILAGENT_ENV": "production"}, "problem: PUBLIC_URL: must be an https address"),
        ({"PAYMENT_GATEWAY": "shopify"}, "problem: PAYMENT_GATEWAY is shopify, but ORDER_SOURCE"),
        ({"OPENAI_API_KEY": "a b"}, "problem: OPENAI_API_KEY: "),
        ({"OPENAI_DAILY_BUDGET": "25"}, "problem: OPENAI_DAILY_BUDGET: needs OPENAI_PRICES"),
        ({"SENDGRID_INBOUND_PUBLIC_KEY": "MFkw"}, "problem: SENDGRID_INBOUND_PUBLIC_KEY: "),
    ],
)
def test_a_wrong_answer_is_told_and_ends_what_is_piped(
    newcomer: Newcomer, wrong: dict[str, str], told: str
) -> None:
    code, said = newcomer.pipe(newcomer.answers(**wrong))
    assert code == 1
    assert told in said
    assert "Traceback" not in said
    assert not any(secret in said for secret in SECRETS)


def paying_by_stripe(answers: dict[str, str]) -> dict[str, str]:
    """Return the answers of a shop that asks Stripe to pay, in the order of the questions."""
    place = list(answers).index("PAYMENT_GATEWAY")
    stripe = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": SECRETS[2],
        "STRIPE_WEBHOOK_SECRET": "",
    }
    before, after = list(answers.items())[:place], list(answers.items())[place + 1 :]
    return {**dict(before), **stripe, **dict(after)}


def test_the_question_for_stripes_secret_names_the_address_of_the_webhook(
    newcomer: Newcomer,
) -> None:
    answers = newcomer.answers(PUBLIC_URL=f"{newcomer.url}/", **{"it runs": "later"})
    code, said = newcomer.pipe(paying_by_stripe(answers))
    assert code == 0, said
    asked = (
        f"Signing secret of Stripe's webhook to {newcomer.url}/webhooks/stripe; empty for later: "
    )
    assert f"STRIPE_WEBHOOK_SECRET: {asked}" in said


LIVE = {
    "PUBLIC_URL": "https://agent.tea.test",
    "SUPPORT_ADDRESS": "support@tea.test",
    "MANAGER_EMAILS": "mona@tea.test",
    "TEAM_EMAILS": "",
    "OPS_EMAILS": "",
}


def test_production_says_what_is_missing_and_goes_on_with_it_later(newcomer: Newcomer) -> None:
    # Production refuses providers at 127.0.0.1; this is the same address as a number.
    environ = newcomer.environ.items()
    newcomer.environ = {each: text.replace("127.0.0.1", "2130706433") for each, text in environ}
    keys = ("SENDGRID_INBOUND_PUBLIC_KEY", "SENDGRID_EVENTS_PUBLIC_KEY")
    first = newcomer.answers(**LIVE, **dict.fromkeys(keys, ""))
    code, said = newcomer.pipe(first)
    assert code == 1
    assert said.count("mailagent starts only with it. If it is empty, run flask setup again") == 2
    missing = said.partition("starts once nothing of this is missing or wrong:\n")[2]
    assert re.findall(r"  - ([A-Z_]+): without it", missing) == [*reversed(keys)]
    assert missing.count("  - ") == len(keys)
    assert f"Your answers are kept in {newcomer.file}." in missing
    assert "go on with:\n    flask setup\n" in missing
    later = {name: newcomer.answers()[name] for name in keys} | {"it runs": "later"}
    code, said = newcomer.pipe(dict.fromkeys(first, "") | later)
    assert code == 0, said
    assert "Start mailagent in another terminal" in said
    # Back to a trial: the new URL is not held against the answer that comes next.
    trial = {"PUBLIC_URL": newcomer.url, "MAILAGENT_ENV": "development", "it runs": "later"}
    code, said = newcomer.pipe(dict.fromkeys(first, "") | trial)
    assert code == 0, said
    assert "Public key from step 3; empty for later" in said


def test_production_refuses_a_test_key_of_stripe_where_it_is_asked_for(newcomer: Newcomer) -> None:
    code, said = newcomer.pipe(paying_by_stripe(newcomer.answers(**LIVE)))
    assert code == 1
    assert said.endswith(
        "problem: STRIPE_API_KEY: is a test key, which moves no money (MAILAGENT_ENV is production)\n"
    )


ERROR = {"error": {"message": "no", "type": "x", "code": "invalid_api_key", "param": None}}


@pytest.mark.parametrize(
    ("provider", "status", "value", "told"),
    [
        ("OPENAI_BASE_URL", 401, ERROR, "problem: OPENAI_API_KEY: the model does not answer"),
        ("SENDGRID_BASE_URL", 401, {"errors": []}, "SendGrid refuses this key (401)"),
        ("SENDGRID_BASE_URL", 401, {"errors": []}, "if that is the wrong region, stop"),
        ("SENDGRID_BASE_URL", 404, {}, "answered 404: is it SendGrid's API?"),
        ("SENDGRID_BASE_URL", 200, {"scopes": ["stats.read"]}, "this key may not send mail"),
        ("SENDGRID_BASE_URL", 200, "hello", "SendGrid answered 200: try again later"),
        ("STRIPE_API_BASE", 403, ERROR, "Stripe refuses this key (403)"),
        ("STRIPE_API_BASE", 500, {}, "Stripe answered 500: try again later"),
    ],
)
def test_each_key_is_checked_by_a_call(
    newcomer: Newcomer, provider: str, status: int, value: object, told: str
) -> None:
    server = answering(status, value)
    server.start()
    newcomer.environ = {**newcomer.environ, provider: server.url}
    code, said = newcomer.pipe(paying_by_stripe(newcomer.answers()))
    server.stop()
    assert code == 1
    assert told in said
    assert not any(secret in said for secret in SECRETS)


@pytest.mark.parametrize(
    ("region", "url"),
    [("", "api.sendgrid.com"), ("global", "api.sendgrid.com"), ("EU", "api.eu.sendgrid.com")],
)
def test_the_region_of_sendgrid_is_asked_at_its_own_address(
    newcomer: Newcomer, region: str, url: str
) -> None:
    closed = {"HTTPS_PROXY": "http://127.0.0.1:9", "SENDGRID_BASE_URL": ""}
    newcomer.environ = {**newcomer.environ, **closed}
    code, said = newcomer.pipe(newcomer.answers(SENDGRID_BASE_URL=region))
    assert code == 1
    assert f"problem: SENDGRID_BASE_URL: https://{url} could not be asked" in said
    assert "Traceback" not in said


def type_at_a_terminal(newcomer: Newcomer, typed: list[tuple[str, str]], last: str) -> str:
    """Answer each question when it is asked; return what the terminal shows up to the question `last`."""
    terminal, slave = pty.openpty()
    process = newcomer.start(stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    said = ""
    try:
        for name, text in typed:
            said += read_until(terminal, f"  {name}: ")
            os.write(terminal, f"{text}\n".encode())
        return said + read_until(terminal, f"  {last}: ")
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_at_a_terminal_a_secret_is_not_shown_and_a_wrong_answer_is_asked_for_again(
    newcomer: Newcomer,
) -> None:
    typed = list(newcomer.answers().items())
    typed[5:5] = [("MANAGER_EMAILS", "mona"), ("MANAGER_EMAILS", SUPPORT)]
    typed[1:2] = [
        ("MAILAGENT_ENV", "production"),  # not at this URL, so back to it
        ("PUBLIC_URL", ""),
        ("MAILAGENT_ENV", "development"),
    ]
    said = type_at_a_terminal(newcomer, typed[:14], "OPENAI_PRICES")
    assert "problem: PUBLIC_URL: must be an https address" in said
    assert "problem: MANAGER_EMAILS: " in said
    assert f"problem: MANAGER_EMAILS: {SUPPORT} is SUPPORT_ADDRESS" in said
    assert said.count("  MANAGER_EMAILS: ") == 3
    assert MONA in said, "what is no secret is shown as it is typed"
    assert SECRETS[0] not in said


class OneModel(OpenAIServer):
    """An account that may use one model."""

    refusal: tuple[int, str | None] = (404, "model_not_found")

    def _create(self, request: Request) -> Answer:
        if json.loads(request.body)["model"] == MODEL_NAME:
            return super()._create(request)
        status, code = self.refusal
        return Answer(status, {"error": ERROR["error"] | {"code": code}})


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        ((404, "model_not_found"), "OPENAI_MODEL=gpt-no"),
        ((429, "rate_limit_exceeded"), "try again in a minute"),
        ((500, None), "try again in a minute"),
        ((400, None), "the model does not answer"),
    ],
)
def test_a_model_that_the_key_cannot_use_and_a_budget_without_prices_are_asked_for_again(
    newcomer: Newcomer, refusal: tuple[int, str | None], told: str
) -> None:
    server = OneModel()
    server.refusal = refusal
    server.start()
    newcomer.environ = {**newcomer.environ, "OPENAI_BASE_URL": f"{server.url}/v1"}
    typed = list(newcomer.answers(OPENAI_MODEL="gpt-no", OPENAI_DAILY_BUDGET="25").items())[:12]
    typed[10:10] = [("OPENAI_MODEL", MODEL_NAME), ("OPENAI_API_KEY", "")]  # Return keeps the key
    typed += [("OPENAI_PRICES", "0.75,0.075,4.5"), ("OPENAI_DAILY_BUDGET", "")]
    said = type_at_a_terminal(newcomer, typed, "PAYMENT_GATEWAY")
    server.stop()
    assert "problem: OPENAI_API_KEY: the model does not answer" in said
    assert told in said
    assert "problem: OPENAI_DAILY_BUDGET: needs OPENAI_PRICES" in said
    settings = env_file.read(newcomer.file)
    assert settings["OPENAI_MODEL"] == MODEL_NAME
    assert settings["OPENAI_API_KEY"] == SECRETS[0]
    assert settings["OPENAI_PRICES"] == "0.75,0.075,4.5"
    assert settings["OPENAI_DAILY_BUDGET"] == "25"


def read_until(terminal: int, words: str) -> str:
    """Return what a terminal shows until these words stand there, followed by the end of the question."""
    said, deadline = "", time.monotonic() + 60
    while not (words in said and said.endswith(": ")):
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 0.2)[0]:
            said += os.read(terminal, 65536).decode("utf-8", "replace")
    return said
