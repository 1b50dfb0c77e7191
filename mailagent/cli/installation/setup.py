"""`flask setup`: from nothing to an installation that answers mail. What is set already is the default."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from mailagent.adapters import env_file
from mailagent.cli.installation import setup_checks
from mailagent.settings import KEY_FILE, SETTINGS, SettingsProblem, load_settings
from mailagent.settings.topics import DEFAULT_DATABASE_URL

Answers = dict[str, str]


@dataclass(frozen=True)
class Question:
    """One setting. `text` may name the app's `{url}`, and by `{later}` what comes of no answer; `default` may
    depend on the answers before; `check` is a call that returns what is wrong. `words`: what a person may type
    for a value. `back_to`: the question to go back to when the check fails or a problem names it."""

    name: str
    text: str
    default: str | Callable[[Answers], str] = ""
    secret: bool = False
    required: bool = True
    check: Callable[[Answers], str | None] | None = None
    asked: Callable[[Answers], bool] = lambda _answers: True
    words: Mapping[str, str] = field(default_factory=dict)
    back_to: str = ""


def _domain(answers: Answers) -> str:
    return answers["SUPPORT_ADDRESS"].rpartition("@")[2]


def _subdomain(answers: Answers) -> str:
    """Return a domain that has no other mail: SendGrid takes all mail of it."""
    domain = _domain(answers)
    return domain if domain.startswith("help.") else f"help.{domain}"


def _env(answers: Answers) -> str:
    return "production" if answers["PUBLIC_URL"].startswith("https://") else "development"


def _uses_stripe(answers: Answers) -> bool:
    return answers["PAYMENT_GATEWAY"] == "stripe"


# In development, and in production, where the app must refuse what is not signed.
_LATER = (
    "empty for later",
    "mailagent starts only with it. If it is empty, run flask setup again later: .env keeps your answers",
)
# One heading, and the questions below it.
_QUESTIONS: dict[str, tuple[Question, ...]] = {
    "The app": (
        Question(
            "PUBLIC_URL", "URL at which managers and SendGrid reach the app; at localhost no mail comes in",
            "http://localhost:8000",
        ),
        Question("MAILAGENT_ENV", "production, or development to try it out", _env, back_to="PUBLIC_URL"),
        Question(
            "DATABASE_URL",
            "Database; for more than one process postgresql+psycopg://…",
            DEFAULT_DATABASE_URL,
            check=setup_checks.migrate,
        ),
    ),
    "The shop": (
        Question("SUPPORT_ADDRESS", "Address that customers write to"),
        Question("REPLY_DOMAIN", "Domain whose mail, all of it, SendGrid takes for the app", _subdomain),
        Question("MANAGER_EMAILS", "Managers who decide refunds, comma-separated"),
        Question("TEAM_EMAILS", "People who answer customers", lambda found: found["MANAGER_EMAILS"]),
        Question("OPS_EMAILS", "Operators, who log in to /ops", lambda found: found["TEAM_EMAILS"]),
    ),
    "The model": (
        Question("OPENAI_MODEL", "Model", "gpt-5.4-mini"),
        Question(
            "OPENAI_API_KEY", "OpenAI key", secret=True,
            check=setup_checks.ask_model, back_to="OPENAI_MODEL",
        ),
        Question(
            "OPENAI_PRICES",
            "Its prices in USD per million tokens: input,cached,output, as 0.75,0.075,4.50; empty for later",
            required=False,
        ),
        Question(
            "OPENAI_DAILY_BUDGET", "The most that it may cost a day, in USD, or none", "none",
            back_to="OPENAI_PRICES",
        ),
    ),
    "Money": (
        Question("PAYMENT_GATEWAY", "stripe pays refunds; ledger only records them, and you pay", "ledger"),
        Question(
            "STRIPE_API_KEY",
            "Restricted Stripe key: Refunds write, Charges and PaymentIntents read",
            secret=True,
            check=setup_checks.list_refunds,
            asked=_uses_stripe,
        ),
        Question(
            "STRIPE_WEBHOOK_SECRET",
            "Signing secret of Stripe's webhook to {url}/webhooks/stripe; {later}",
            secret=True,
            required=False,
            asked=_uses_stripe,
        ),
    ),
    "Mail that goes out": (
        Question(
            "SENDGRID_BASE_URL", "SendGrid's region: global, or eu for an EU account",
            setup_checks.SENDGRID_REGIONS["global"],
            check=setup_checks.reach_sendgrid, words=setup_checks.SENDGRID_REGIONS,
        ),
        Question(
            "SENDGRID_API_KEY", "SendGrid key with the permission Mail Send", secret=True,
            check=setup_checks.read_scopes,
        ),
    ),
}  # fmt: skip
_KEYS_OF_WEBHOOKS = (
    Question("SENDGRID_INBOUND_PUBLIC_KEY", "Public key from step 3; {later}", required=False),
    Question("SENDGRID_EVENTS_PUBLIC_KEY", "Verification key from step 4; {later}", required=False),
)  # fmt: skip

_AT_SENDGRID = """
DNS records of {domain}:
    {domain}.   MX   10   mx.sendgrid.net.
    ALL mail of {domain} then goes to SendGrid: use a domain without mailboxes of your own.
    and the CNAME records that SendGrid shows in step 1

At SendGrid (https://app.sendgrid.com):
  1. Settings, Sender Authentication, Authenticate Your Domain: {domains}. Add the records, press Verify.
  2. Settings, Inbound Parse, Add Host & URL. Host: {domain}
        URL: {url}/webhooks/sendgrid/inbound
        Tick "POST the raw, full MIME message". Leave the spam check off.
  3. Give it a security policy with a signature. SendGrid does this by its API only. Settings, API Keys, Create
     API Key: make one with Full Access, put it in place of KEY, and delete it afterwards.
        curl {api}/v3/user/webhooks/security/policies -H "Authorization: Bearer KEY" \\
          -H "Content-Type: application/json" \\
          -d '{{"name": "mailagent inbound", "signature": {{"enabled": true}}}}'
     The answer has the public key, and the id that the second call needs in place of ID:
        curl -X PATCH {api}/v3/user/webhooks/parse/settings/{domain} -H "Authorization: Bearer KEY" \\
          -H "Content-Type: application/json" -d '{{"security_policy": "ID", "send_raw": true,
          "spam_check": false, "url": "{url}/webhooks/sendgrid/inbound"}}'
  4. Settings, Mail Settings, Event Webhooks, Create new webhook.
        URL: {url}/webhooks/sendgrid/events
        Tick Processed, Deferred, Delivered, Bounced, Dropped and Spam Reports.
        Turn on Signature Verification and press Save. The webhook shows its verification key.
"""
_FORWARD = """
Let {support} forward its mail to support@{domain}.
"""
_START = """
Start mailagent in another terminal, from this folder:
    {folder}/gunicorn -c python:mailagent.serving wsgi:app
For servers, docs/deploy.md has the way with Docker, systemd and Kubernetes.
"""
_UNFINISHED = """
Almost done. mailagent starts once nothing of this is missing or wrong:
{needed}
Your answers are kept in {file}. When you have the rest, go on with:
    flask setup
"""


@click.command("setup")
def setup() -> None:
    """Ask for every setting, check each, and write `.env`."""
    file = Path(env_file.NAME)
    _forget_loaded(file)
    given = {each.name: os.environ[each.name] for each in SETTINGS if os.environ.get(each.name)}
    answers = {**given, **env_file.read(file)}
    click.echo(f"Return keeps the value in brackets. {file.absolute()} is written after each part.")
    _keep_secret_key(file, answers)
    if answers.get("SUPPORT_ADDRESS"):  # without REPLY_DOMAIN, mail goes to this domain until now
        answers.setdefault("REPLY_DOMAIN", _domain(answers))
    for heading, questions in _QUESTIONS.items():
        _ask_part(file, heading, questions, answers)
    _tell_what_to_press(answers)
    _ask_part(file, "The keys that SendGrid shows", _KEYS_OF_WEBHOOKS, answers)
    _try_out(file, answers)


def _tell_what_to_press(answers: Answers) -> None:
    domain, sender = answers["REPLY_DOMAIN"], _domain(answers)
    domains = domain if domain == sender else f"{sender}, and {domain}"
    url, api = (answers[name].rstrip("/") for name in ("PUBLIC_URL", "SENDGRID_BASE_URL"))
    click.echo(_AT_SENDGRID.format(domain=domain, domains=domains, url=url, api=api))
    if domain != sender:
        click.echo(_FORWARD.format(support=answers["SUPPORT_ADDRESS"], domain=domain))


def _forget_loaded(file: Path) -> None:
    """Take out of the environment what Flask has loaded from the file: these values are asked for again."""
    for name, value in env_file.read(file).items():
        if os.environ.get(name) == value:
            del os.environ[name]


def _keep_secret_key(file: Path, answers: Answers) -> None:
    """Make SECRET_KEY, or take over the one of development: links that were mailed must keep working."""
    if answers.get("SECRET_KEY"):
        return
    made = KEY_FILE.read_text("ascii").strip() if KEY_FILE.is_file() else ""
    answers["SECRET_KEY"] = made or secrets.token_urlsafe(48)
    env_file.write(file, {"SECRET_KEY": answers["SECRET_KEY"]})


def _ask_part(file: Path, heading: str, questions: tuple[Question, ...], answers: Answers) -> None:
    click.echo(f"\n{heading}")
    names, place = [each.name for each in questions], 0
    while place < len(questions):
        each, later = questions[place], names[place + 1 :]
        again = _ask(each, answers, later) if each.asked(answers) else ""
        place = names.index(again) if again else place + 1
    asked = [each.name for each in questions if each.asked(answers)]
    given = {name: answers[name] for name in asked if answers[name]}
    env_file.write(file, given)
    for name, value in given.items():
        if os.environ.get(name, value) != value:
            click.echo(f"note: {name} is also set in your environment, and that value wins")


def _ask(question: Question, answers: Answers, later: list[str]) -> str:
    """Ask once. Returns the question to ask next if something is wrong. If answers are piped, this ends it."""
    tried = {**answers, question.name: _prompt(question, answers)}
    problems, again = _find_problems(question, tried, later)
    if again != question.name:  # what is wrong may be the earlier answer
        answers[question.name] = tried[question.name]
    if not problems and question.check:
        click.echo("  checked")
    for problem in problems:
        click.echo(f"problem: {problem}")
    if problems and not sys.stdin.isatty():
        raise SystemExit(1)
    return again


def _prompt(question: Question, answers: Answers) -> str:
    default = question.default(answers) if callable(question.default) else question.default
    known = answers.get(question.name) or default
    shown = ("kept" if known else "") if question.secret else known
    url = answers.get("PUBLIC_URL", "").rstrip("/")
    later = _LATER[answers.get("MAILAGENT_ENV") == "production"]
    asked = question.text.format(url=url, later=later)
    text = f"  {question.name}: {asked}" + (f" [{shown}]" if shown else "")
    hidden = question.secret and sys.stdin.isatty()
    typed = click.prompt(text, default="", show_default=False, hide_input=hidden)
    answer = str(typed).strip()
    return question.words.get(answer.lower(), answer) or known


def _find_problems(question: Question, answers: Answers, later: list[str]) -> tuple[list[str], str]:
    """Return what is wrong with an answer: by itself, beside the others except the `later`, or by its check.
    And the question to ask next, or "" if nothing is wrong."""
    if not answers[question.name]:
        needed = f"{question.name}: an answer is needed"
        return ([needed], question.name) if question.required else ([], "")
    try:
        load_settings({name: text for name, text in answers.items() if name not in later})
    except SettingsProblem as found:
        names = question.name, question.back_to
        if told := [each for each in found.problems if each.split()[0].rstrip(":") in names]:
            goes_back = question.back_to and question.back_to in "".join(told)
            return told, question.back_to if goes_back else question.name
    if problem := question.check(answers) if question.check else None:
        return [f"{question.name}: {problem}"], question.back_to or question.name
    return [], ""


def _try_out(file: Path, answers: Answers) -> None:
    """Load the settings as the app does, and send a test mail once the app runs."""
    environ = {**answers, **os.environ}  # what is exported wins over the file
    try:
        load_settings(environ)
    except SettingsProblem as problem:
        needed = "\n".join(f"  - {each}" for each in problem.problems)
        click.echo(_UNFINISHED.format(file=file.absolute(), needed=needed))
        raise SystemExit(1) from None
    click.echo(_START.format(folder=Path(sys.executable).parent))
    words = "Press Return when it runs, and a test mail is sent. Or type later."
    typed = click.prompt(words, default="", show_default=False, prompt_suffix=" ")
    if typed.strip().lower() == "later":
        click.echo("Later: flask check --send-test-mail")
        return
    app = str(Path(__file__).resolve().parents[3] / "wsgi.py")
    command = [sys.executable, "-m", "flask", "--app", app, "check", "--send-test-mail"]
    # In a process of its own, which has only these settings.
    if subprocess.run(command, env=environ, check=False).returncode != 0:  # noqa: S603 - our own command
        raise SystemExit(1)
    click.echo("mailagent is set up. Next: import orders (docs/orders.md).")
