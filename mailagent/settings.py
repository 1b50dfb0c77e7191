"""The environment, read once. Every problem is found at once, each with what to do about it.

A setting that another room needs goes there through `services`; nothing else reads the environment.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from mailagent.adapters import setting_values as values
from mailagent.adapters.sendgrid.signature import parse_public_key
from mailagent.adapters.templates import template_check
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.mail.draft import DraftRefunds, DraftReplies
from mailagent.domain.mail.webhook import MOST_HOURS, USUAL_HOURS
from mailagent.domain.operations.model_cost import (
    ALARM_PERCENT,
    DailyBudget,
    TokenPrices,
    parse_amount,
    parse_prices,
)
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.shop import Retention, Shop, Waits, person_of

T = TypeVar("T")

DEFAULT_DATABASE_URL = "sqlite:///mailagent.db"
DEFAULT_MODEL = "gpt-5.4-mini"
SENDGRID_URL = "https://api.sendgrid.com"
KEY_FILE = Path(".mailagent-key")
ENVIRONMENTS = ("development", "production")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable, as the README lists it."""

    name: str
    default: str
    meaning: str


SETTINGS = (
    Setting(
        "MAILAGENT_ENV",
        "`development`",
        "`production` refuses to start with a missing secret, an open webhook or a stand-in provider",
    ),
    Setting(
        "MAILAGENT_ROLE",
        "`all`",
        "`web` (HTTP only), `worker` (workflows only), `all` (both in one process)",
    ),
    Setting(
        "WORKER_ID",
        "host name + process number",
        "identity of a worker process: unique, and the same after a restart",
    ),
    Setting(
        "WORKER_BEAT_FILE",
        "–",
        "a file that a worker touches every few seconds, for `python -m mailagent.healthcheck`",
    ),
    Setting(
        "DATABASE_URL",
        f"`{DEFAULT_DATABASE_URL}`",
        "one database for the app's tables and DBOS's; `postgresql+psycopg://…` in production",
    ),
    Setting(
        "SECRET_KEY",
        "`.mailagent-key`, made on first start in development",
        "signs links and encrypts second factors; a comma-separated list, newest first, to rotate keys",
    ),
    Setting("PUBLIC_URL", "`http://localhost:8000`", "base of every link that is mailed"),
    Setting("SUPPORT_ADDRESS", "`support@shop.example`", "From of replies"),
    Setting(
        "REPLY_DOMAIN",
        "domain of `SUPPORT_ADDRESS`",
        "host whose MX points at SendGrid; reply addresses live there",
    ),
    Setting(
        "DEFAULT_LANGUAGE",
        "`en`",
        "for customers whose language is unknown: `en`, `de`, `fr`, `es`, a region's (`de_CH`), or one "
        "from `MAIL_TEMPLATES`",
    ),
    Setting(
        "MAIL_TEMPLATES",
        "–",
        "a folder whose files stand in for those of `templates/mail`: [docs/mails.md](docs/mails.md)",
    ),
    Setting(
        "MANAGER_EMAILS",
        "`manager@shop.example`",
        "who decides refunds, comma-separated, in order of escalation",
    ),
    Setting("TEAM_EMAILS", "`MANAGER_EMAILS`", "who gets conversations handed over to people"),
    Setting(
        "OPS_EMAILS",
        "–",
        "operators: may do everything in `/ops`, and are told of runs that fail (without any, the team is)",
    ),
    Setting("OPS_SESSION_SECONDS", "`43200`", "how long a login to `/ops` lasts"),
    Setting(
        "OPS_SECOND_FACTOR",
        "`none`",
        "what a login to `/ops` needs beside the mailed link: `none`, or `totp`, a code of an authenticator "
        "app: [docs/operate.md](docs/operate.md#a-second-factor-for-logins)",
    ),
    Setting("OPENAI_API_KEY", "–", "key of the model's provider"),
    Setting("OPENAI_BASE_URL", "OpenAI's", "any server that speaks the Responses API"),
    Setting("OPENAI_MODEL", f"`{DEFAULT_MODEL}`", "the model that reads mail and proposes"),
    Setting(
        "OPENAI_PRICES",
        "–",
        "what the model costs in USD for a million tokens, as `input,cached,output` or "
        "`input,cached,output,cache_write`; without it `/ops` shows tokens only",
    ),
    Setting(
        "OPENAI_DAILY_BUDGET",
        "–",
        "the most that the model may cost in a day (UTC), in USD; then mail waits for the next day. Needs "
        "`OPENAI_PRICES`. `none`: no limit. Production needs one of the two",
    ),
    Setting(
        "OPENAI_BUDGET_ALARM_PERCENT",
        f"`{ALARM_PERCENT}`",
        "at so much of the day's budget operators are told",
    ),
    Setting(
        "OPENAI_REQUESTS_PER_MINUTE",
        "–",
        "the most calls of the model a minute, of all workers together; `0` for no limit: "
        "[docs/operate.md](docs/operate.md#limits-and-fairness)",
    ),
    Setting("OPENAI_TOKENS_PER_MINUTE", "–", "the most tokens a minute likewise"),
    Setting("SENDGRID_API_KEY", "–", "key with the Mail Send permission"),
    Setting(
        "SENDGRID_BASE_URL",
        f"`{SENDGRID_URL}`",
        "SendGrid's API; `https://api.eu.sendgrid.com` for EU accounts",
    ),
    Setting(
        "SENDGRID_INBOUND_PUBLIC_KEY",
        "–",
        "verification key of Inbound Parse; a comma-separated list, to rotate keys",
    ),
    Setting(
        "SENDGRID_EVENTS_PUBLIC_KEY", "–", "verification key of the Event Webhook; a list likewise"
    ),
    Setting(
        "WEBHOOK_HOURS",
        f"`{USUAL_HOURS}`",
        f"how many hours ago SendGrid may have signed a request; up to `{MOST_HOURS}` while mail comes that "
        "waited there: [docs/operate.md](docs/operate.md#after-an-outage-of-more-than-a-day)",
    ),
    Setting(
        "PAYMENT_GATEWAY",
        "`ledger`",
        "`ledger` records refunds for settlement elsewhere; `stripe` moves the money",
    ),
    Setting(
        "STRIPE_API_KEY",
        "–",
        "key that may write refunds and read PaymentIntents and Charges; needed by the gateway `stripe`",
    ),
    Setting("STRIPE_API_BASE", "Stripe's", "any server that speaks Stripe's API"),
    Setting(
        "STRIPE_WEBHOOK_SECRET",
        "–",
        "signing secret of the endpoint `/webhooks/stripe`; a list likewise; without it there is no such "
        "route",
    ),
    Setting(
        "REFUND_POLICY",
        "built-in policy",
        "path of a TOML file with the shop's refund rules: [docs/policy.md](docs/policy.md)",
    ),
    Setting(
        "DRAFT_REPLIES",
        "`none`",
        "which answers of the agent wait for a click in `/ops`: `none`, `all`, or `refunds` (those given "
        "while money was spoken of): [docs/drafts.md](docs/drafts.md)",
    ),
    Setting(
        "DRAFT_REFUNDS",
        "`none`",
        "`all`: refunds wait for a manager, too, that the policy would pay without asking",
    ),
    Setting(
        "DRAFT_REMINDER_SECONDS",
        "`14400`",
        "after how long the team is reminded of a draft that waits",
    ),
    Setting(
        "ORDERS_API_TOKEN",
        "–",
        "bearer token of `PUT /api/orders/<order_id>`; a list likewise; without it there is no such route",
    ),
    Setting(
        "METRICS_TOKEN",
        "–",
        "bearer token of `GET /metrics`; a list likewise; without it there is no such route",
    ),
    Setting(
        "APPROVAL_EXPIRY_SECONDS",
        "`604800`",
        "how long a refund waits for a manager before it is rejected",
    ),
    Setting(
        "APPROVAL_REMINDER_SECONDS",
        "`86400`",
        "after how long a manager who was asked is reminded; three times at most",
    ),
    Setting(
        "APPROVAL_ESCALATION_SECONDS",
        "`172800`",
        "after how long the next manager is asked too; those before may still decide",
    ),
    Setting(
        "MANAGER_ABSENCE_SECONDS",
        "`86400`",
        "how long a manager is passed over after an automatic answer, or mail that did not arrive",
    ),
    Setting(
        "MAIL_OUTCOME_SECONDS",
        "`600`",
        "how long to wait for SendGrid's events when it is unknown whether a mail went out",
    ),
    Setting(
        "UNANSWERED_SECONDS",
        "`14400`",
        "after how long an unanswered mail is handed to people; if it waits for the model's budget, counted "
        "from when there is one again",
    ),
    Setting(
        "RAW_MAIL_DAYS",
        "`30`",
        "how long the raw bytes of mail, attachments included, are kept; its text stays",
    ),
    Setting(
        "RUN_DAYS",
        "`30`",
        "how long the histories of runs that have ended are kept: [docs/retention.md](docs/retention.md)",
    ),
    Setting(
        "MAIL_DAYS",
        "–",
        "after so many quiet days the words of a conversation are deleted; without it they stay",
    ),
    Setting(
        "CONVERSATION_CONCURRENCY",
        "`64`",
        "conversations that one worker answers at the same time; each takes 0.4 MB "
        "while the model thinks: [docs/operate.md](docs/operate.md#limits-and-fairness)",
    ),
    Setting(
        "MAILS_PER_HOUR",
        "`5000`",
        "so many mails are let in within an hour, over all senders; more are throttled and follow later: "
        "[docs/operate.md](docs/operate.md#mail-that-is-throttled)",
    ),
    Setting(
        "LOG_FORMAT",
        "`json` in production, else `text`",
        "lines of the log: `text`, or `json`, one object a line: [docs/operate.md](docs/operate.md#seeing-it)",
    ),
    Setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "–",
        "turns tracing on: a collector of OTLP over HTTP, such as `http://collector:4318`",
    ),
    Setting(
        "DBOS_CONDUCTOR_KEY", "–", "connects workers to the DBOS console (needs `dbos[enterprise]`)"
    ),
    Setting("DBOS_CONDUCTOR_URL", "DBOS's", "a console of your own"),
    Setting(
        "DBOS_CONDUCTOR_METADATA_ONLY",
        "`no`",
        "`yes`: the console gets no inputs, outputs and errors of runs and steps, which hold ids, kinds and"
        " reasons: [docs/operate.md](docs/operate.md#the-dbos-console)",
    ),
)


class SettingsProblem(Exception):
    """The environment cannot be used; the text lists every problem, one a line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(
            "mailagent cannot start with these settings:\n"
            + "\n".join(f"  - {p}" for p in problems)
        )
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Settings:
    env: str
    role: str
    worker_id: str | None
    database_url: str
    secret_keys: tuple[str, ...]
    shop: Shop
    ops_emails: tuple[str, ...]
    openai_api_key: str | None
    openai_base_url: str | None
    openai_model: str
    sendgrid_api_key: str | None
    sendgrid_base_url: str
    inbound_keys: tuple[str, ...]
    events_keys: tuple[str, ...]
    payment_gateway: str
    stripe_api_key: str | None
    stripe_api_base: str | None
    stripe_webhook_secrets: tuple[str, ...]
    orders_api_tokens: tuple[str, ...]
    metrics_tokens: tuple[str, ...]
    policy: Policy
    waits: Waits
    conversation_concurrency: int
    mails_per_hour: int
    webhook_hours: int
    conductor_key: str | None
    conductor_url: str | None
    conductor_metadata_only: bool
    demo_url: str | None
    crash_at: str | None
    crash_marker: str | None
    mail_templates: Path | None = None
    token_prices: TokenPrices | None = None
    daily_budget: DailyBudget | None = None
    budget_is_set: bool = False  # also to `none`
    pace: RateLimit = RateLimit()
    draft_replies: DraftReplies = DraftReplies.NONE
    retention: Retention = Retention()
    second_factor: str = "none"
    worker_beat_file: Path | None = None
    log_format: str = LOG_FORMATS[0]
    otlp_endpoint: str | None = None
    made_key_file: Path | None = None  # when this process was the first to need one

    @property
    def production(self) -> bool:
        return self.env == "production"

    @property
    def stripe_livemode(self) -> bool | None:
        """Whether STRIPE_API_KEY moves real money; None without one, or with one of another form.
        https://docs.stripe.com/keys"""
        kind = (self.stripe_api_key or "")[2:8]
        return {"_live_": True, "_test_": False}.get(kind)

    @property
    def runs_web(self) -> bool:
        return self.role in ("all", "web")

    @property
    def runs_workflows(self) -> bool:
        return self.role in ("all", "worker")


class _Reader:
    """Reads variables and collects what is wrong with them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[str] = []

    def text(self, name: str) -> str | None:
        value = self._environ.get(name, "").strip()
        return value or None

    def among(self, name: str, names: tuple[str, ...]) -> str:
        value = self.text(name) or names[0]
        if value not in names:
            self.problems.append(f"{name} is {value!r}; use one of {', '.join(names)}")
            return names[0]
        return value

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def addresses(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return (
            tuple(
                self.check(name, address, values.parse_address) or address
                for address in self.names(name)
            )
            or default
        )

    def seconds(self, name: str, default: int) -> int:
        return self.parsed(name, values.parse_seconds) or default

    def days(self, name: str, default: int) -> int:
        return self.parsed(name, values.parse_days) or default

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return a setting's value; None when it is not set, or wrong, which is noted."""
        text = self.text(name)
        return None if text is None else self.check(name, text, parse)

    def check(self, name: str, value: str, parse: Callable[[str], T]) -> T | None:
        try:
            return parse(value)
        except ValueError as problem:
            self.problems.append(f"{name}: {problem}")
            return None


def load_settings(environ: Mapping[str, str], key_file: Path = KEY_FILE) -> Settings:
    """Return the settings in `environ`; in development a missing SECRET_KEY is made in `key_file`.

    Raises SettingsProblem with every problem at once.
    """
    read = _Reader(environ)
    env = read.among("MAILAGENT_ENV", ENVIRONMENTS)
    shop = _shop(read)
    settings = Settings(
        env=env,
        role=read.among("MAILAGENT_ROLE", ("all", "web", "worker")),
        worker_id=read.parsed("WORKER_ID", values.parse_line),
        database_url=read.parsed("DATABASE_URL", values.parse_database_url) or DEFAULT_DATABASE_URL,
        secret_keys=read.names("SECRET_KEY"),
        shop=shop,
        ops_emails=shop.ops_emails,
        openai_api_key=read.parsed("OPENAI_API_KEY", values.parse_key),
        openai_base_url=read.parsed("OPENAI_BASE_URL", values.parse_url),
        openai_model=read.parsed("OPENAI_MODEL", values.parse_line) or DEFAULT_MODEL,
        sendgrid_api_key=read.parsed("SENDGRID_API_KEY", values.parse_key),
        sendgrid_base_url=read.parsed("SENDGRID_BASE_URL", values.parse_url) or SENDGRID_URL,
        inbound_keys=_public_keys(read, "SENDGRID_INBOUND_PUBLIC_KEY"),
        events_keys=_public_keys(read, "SENDGRID_EVENTS_PUBLIC_KEY"),
        payment_gateway=read.among("PAYMENT_GATEWAY", ("ledger", "stripe")),
        stripe_api_key=read.parsed("STRIPE_API_KEY", values.parse_key),
        stripe_api_base=read.parsed("STRIPE_API_BASE", values.parse_url),
        stripe_webhook_secrets=_stripe_webhook_secrets(read),
        orders_api_tokens=_bearer_tokens(read, "ORDERS_API_TOKEN"),
        metrics_tokens=_bearer_tokens(read, "METRICS_TOKEN"),
        policy=_policy(read, shop),
        waits=_waits(read),
        conversation_concurrency=read.parsed("CONVERSATION_CONCURRENCY", values.parse_concurrency)
        or 64,
        mails_per_hour=read.parsed("MAILS_PER_HOUR", values.parse_mails) or Limits().mails_per_hour,
        webhook_hours=read.parsed(
            "WEBHOOK_HOURS", lambda text: values.parse_whole(text, MOST_HOURS)
        )
        or USUAL_HOURS,
        conductor_key=read.parsed("DBOS_CONDUCTOR_KEY", values.parse_key),
        conductor_url=read.parsed("DBOS_CONDUCTOR_URL", values.parse_conductor_url),
        conductor_metadata_only=read.among("DBOS_CONDUCTOR_METADATA_ONLY", ("no", "yes")) == "yes",
        demo_url=read.text("MAILAGENT_DEMO"),
        crash_at=read.text("MAILAGENT_CRASH_AT"),
        crash_marker=read.text("MAILAGENT_CRASH_ONCE"),
        mail_templates=_mail_templates(read, shop.default_language),
        token_prices=read.parsed("OPENAI_PRICES", parse_prices),
        daily_budget=_daily_budget(read),
        budget_is_set=read.text("OPENAI_DAILY_BUDGET") is not None,
        pace=RateLimit(
            read.parsed("OPENAI_REQUESTS_PER_MINUTE", values.parse_limit) or None,
            read.parsed("OPENAI_TOKENS_PER_MINUTE", values.parse_limit) or None,
        ),
        draft_replies=DraftReplies(read.among("DRAFT_REPLIES", tuple(DraftReplies))),
        retention=_retention(read),
        second_factor=read.among("OPS_SECOND_FACTOR", ("none", "totp")),
        worker_beat_file=_beat_file(read),
        log_format=_log_format(read, env),
        otlp_endpoint=read.parsed("OTEL_EXPORTER_OTLP_ENDPOINT", values.parse_url),
    )
    problems = read.problems + _problems_together(settings)
    if problems:
        raise SettingsProblem(problems)
    if not settings.secret_keys:
        return _with_secret_key(settings, key_file)
    return settings


def _problems_together(settings: Settings) -> list[str]:
    """Return what is wrong with settings beside each other, each of which is sound."""
    problems = _problems_of_role(settings) + _problems_of_gateway(settings)
    problems += _problems_of_console(settings) + _problems_of_tracing(settings)
    problems += _problems_of_cost(settings)
    if settings.production:
        problems += _problems_in_production(settings)
    return problems


def log_format_of(environ: Mapping[str, str]) -> str:
    """Return in which format to log, also where the settings are wrong and that has to be logged."""
    read = _Reader(environ)
    return _log_format(read, read.among("MAILAGENT_ENV", ENVIRONMENTS))


def _log_format(read: _Reader, env: str) -> str:
    usual = LOG_FORMATS if env == "development" else tuple(reversed(LOG_FORMATS))
    return read.among("LOG_FORMAT", usual)


def _beat_file(read: _Reader) -> Path | None:
    path = Path(text).absolute() if (text := read.text("WORKER_BEAT_FILE")) else None
    if path and not path.parent.is_dir():
        read.problems.append(f"WORKER_BEAT_FILE: there is no folder {path.parent}; make it first")
    return path


def _daily_budget(read: _Reader) -> DailyBudget | None:
    none = read.text("OPENAI_DAILY_BUDGET") == "none"
    usd = None if none else read.parsed("OPENAI_DAILY_BUDGET", parse_amount)
    percent = read.parsed("OPENAI_BUDGET_ALARM_PERCENT", lambda text: values.parse_whole(text, 100))
    return None if usd is None else DailyBudget(usd, percent or ALARM_PERCENT)


def _problems_of_cost(settings: Settings) -> list[str]:
    if settings.daily_budget is None or settings.token_prices is not None:
        return []
    return ["OPENAI_DAILY_BUDGET: needs OPENAI_PRICES, or nobody knows what a call costs"]


def _retention(read: _Reader) -> Retention:
    return Retention(
        run_days=read.days("RUN_DAYS", Retention().run_days),
        mail_days=read.parsed("MAIL_DAYS", values.parse_days),
    )


def _waits(read: _Reader) -> Waits:
    default = Waits()
    return Waits(
        approval_expiry_seconds=read.seconds(
            "APPROVAL_EXPIRY_SECONDS", default.approval_expiry_seconds
        ),
        approval_reminder_seconds=read.seconds(
            "APPROVAL_REMINDER_SECONDS", default.approval_reminder_seconds
        ),
        approval_escalation_seconds=read.seconds(
            "APPROVAL_ESCALATION_SECONDS", default.approval_escalation_seconds
        ),
        manager_absence_seconds=read.seconds(
            "MANAGER_ABSENCE_SECONDS", default.manager_absence_seconds
        ),
        mail_outcome_seconds=read.seconds("MAIL_OUTCOME_SECONDS", default.mail_outcome_seconds),
        unanswered_seconds=read.seconds("UNANSWERED_SECONDS", default.unanswered_seconds),
        raw_mail_days=read.days("RAW_MAIL_DAYS", default.raw_mail_days),
        ops_session_seconds=read.seconds("OPS_SESSION_SECONDS", default.ops_session_seconds),
        draft_reminder_seconds=read.seconds(
            "DRAFT_REMINDER_SECONDS", default.draft_reminder_seconds
        ),
    )


def _shop(read: _Reader) -> Shop:
    support = read.parsed("SUPPORT_ADDRESS", values.parse_address) or "support@shop.example"
    managers = read.addresses("MANAGER_EMAILS", ("manager@shop.example",))
    read.problems += _problems_of_managers(managers)
    return Shop(
        support_address=support,
        reply_domain=read.parsed("REPLY_DOMAIN", values.parse_domain) or support.rpartition("@")[2],
        manager_emails=managers,
        team_emails=read.addresses("TEAM_EMAILS", managers),
        public_url=(read.parsed("PUBLIC_URL", values.parse_url) or "http://localhost:8000").rstrip(
            "/"
        ),
        ops_emails=read.addresses("OPS_EMAILS", ()),
        default_language=read.parsed("DEFAULT_LANGUAGE", values.parse_locale) or "en",
    )


def _mail_templates(read: _Reader, language: str) -> Path | None:
    """Return the shop's own folder of templates, having rendered every mail with it once."""
    own = Path(path).absolute() if (path := read.text("MAIL_TEMPLATES")) else None
    problems = template_check.find_problems(own) if own else []
    read.problems += [f"MAIL_TEMPLATES: {problem}" for problem in problems]
    usable = own if own and own.is_dir() else None
    missing = template_check.find_untranslated(language, usable)
    if missing:
        read.problems.append(
            f"DEFAULT_LANGUAGE: {language!r} has no {', '.join(missing)}; use one of "
            f"{', '.join(template_check.list_languages(None))}, or write them in MAIL_TEMPLATES"
        )
    return usable


def _bearer_tokens(read: _Reader, name: str) -> tuple[str, ...]:
    tokens = read.names(name)
    for token in tokens:
        # Whoever has that of orders can make some that are then refunded: weak ones are refused everywhere.
        read.check(name, token, values.check_secret)
        read.check(name, token, values.parse_key)
    return tokens


def _stripe_webhook_secrets(read: _Reader) -> tuple[str, ...]:
    found = read.names("STRIPE_WEBHOOK_SECRET")
    for secret in found:
        read.check("STRIPE_WEBHOOK_SECRET", secret, values.parse_webhook_secret)
    return found


def _policy(read: _Reader, shop: Shop) -> Policy:
    path = read.text("REFUND_POLICY")
    policy = _policy_in_file(read, Path(path)) if path else Policy()
    if policy.four_eyes_above and len(shop.manager_emails) < 2:
        read.problems.append(
            "MANAGER_EMAILS: names one manager, but the policy has four_eyes_above, which two approve; "
            "add another"
        )
    drafts = DraftRefunds(read.among("DRAFT_REFUNDS", tuple(DraftRefunds)))
    return replace(policy, drafts_refunds=drafts is DraftRefunds.ALL)


def _policy_in_file(read: _Reader, path: Path) -> Policy:
    # Only here: it loads pydantic, which takes a tenth of a second.
    from mailagent.adapters.policy_file import PolicyFileProblem, load_policy

    try:
        return load_policy(path)
    except PolicyFileProblem as problem:
        read.problems += [f"REFUND_POLICY: {each}" for each in problem.problems]
        return Policy()


def _problems_of_managers(managers: tuple[str, ...]) -> list[str]:
    people: dict[str, list[str]] = {}
    for manager in managers:
        people.setdefault(person_of(manager), []).append(manager)
    return [
        f"MANAGER_EMAILS: {' and '.join(addresses)} are one mailbox, so one person would be asked twice; "
        "name everybody once"
        for addresses in people.values()
        if len(addresses) > 1
    ]


def _public_keys(read: _Reader, name: str) -> tuple[str, ...]:
    keys = read.names(name)
    for key in keys:
        read.check(name, key, parse_public_key)
    return keys


def _problems_of_tracing(settings: Settings) -> list[str]:
    if not settings.otlp_endpoint or _is_installed("opentelemetry-exporter-otlp-proto-http"):
        return []
    return [
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the packages for it are missing: pip install "
        f"'dbos[otel]=={version('dbos')}', or leave it out"
    ]


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _problems_of_console(settings: Settings) -> list[str]:
    """The console's client is a package of its own, which works with its very own version of dbos only."""
    if not settings.conductor_key or not settings.runs_workflows:
        return []
    wanted = version("dbos")
    try:
        found = version("dbos-enterprise")
    except PackageNotFoundError:
        found = None
    if found == wanted:
        return []
    what = "its package is missing" if found is None else f"dbos-enterprise is {found}"
    return [
        f"DBOS_CONDUCTOR_KEY is set, but {what}: pip install 'dbos[enterprise]=={wanted}', or leave it out"
    ]


def _problems_of_gateway(settings: Settings) -> list[str]:
    pays = settings.payment_gateway == "stripe" and settings.runs_workflows
    listens = bool(settings.stripe_webhook_secrets) and settings.runs_web
    problems = []
    if pays and not settings.stripe_api_key:
        problems.append(
            "STRIPE_API_KEY: is not set, but PAYMENT_GATEWAY is stripe; make a restricted key that may "
            "write refunds, and read charges and payment intents"
        )
    if (pays or listens) and find_spec("stripe") is None:
        asked = "PAYMENT_GATEWAY is stripe" if pays else "STRIPE_WEBHOOK_SECRET is set"
        problems.append(f"{asked}, but its package is missing: pip install stripe==16.1.0")
    return problems


def _problems_of_role(settings: Settings) -> list[str]:
    if settings.role != "all" and settings.database_url.startswith("sqlite"):
        return [
            f"MAILAGENT_ROLE is {settings.role}, but SQLite is for one process: set DATABASE_URL to a "
            "PostgreSQL database, or MAILAGENT_ROLE to all"
        ]
    return []


def _problems_in_production(settings: Settings) -> list[str]:
    needed = _needed_by_people(settings.shop) | _needed_everywhere(settings)
    if settings.runs_workflows:
        needed |= _needed_by_workflows(settings)
    wrong = [text for text, fine in needed.items() if not fine] + _weak_keys(settings)
    return [f"{text} (MAILAGENT_ENV is production)" for text in wrong]


def _needed_everywhere(settings: Settings) -> dict[str, bool]:
    """Return what must hold in production, by what to say when it does not."""
    return {
        "SECRET_KEY: is not set; " + values.HOW_TO_MAKE_ONE: bool(settings.secret_keys),
        "SENDGRID_EVENTS_PUBLIC_KEY: without it anybody can post delivery events, and workers "
        "cannot tell what became of mail": bool(settings.events_keys),
        "SENDGRID_INBOUND_PUBLIC_KEY: without it anybody can post mail": (
            bool(settings.inbound_keys) or not settings.runs_web
        ),
        "STRIPE_WEBHOOK_SECRET: without it nobody hears of refunds that fail later, are made in "
        "Stripe's dashboard, or are charged back": (
            bool(settings.stripe_webhook_secrets)
            or settings.payment_gateway != "stripe"
            or not settings.runs_web
        ),
        "MAILAGENT_DEMO: the demo is not for production": settings.demo_url is None,
        "MAILAGENT_CRASH_AT: planned crashes are for tests": settings.crash_at is None,
    }


def _needed_by_people(shop: Shop) -> dict[str, bool]:
    return {
        "MANAGER_EMAILS: nobody real would decide on refunds; set the managers' addresses": (
            not _is_example(*shop.manager_emails)
        ),
        "TEAM_EMAILS: nobody real would get what the agent hands over; set the team's addresses": (
            shop.team_emails == shop.manager_emails or not _is_example(*shop.team_emails)
        ),
        "OPS_EMAILS: still an example; set the operators' addresses": not _is_example(
            *shop.ops_emails
        ),
        "SUPPORT_ADDRESS: still the example; set the address that customers write to": (
            not _is_example(shop.support_address)
        ),
        "REPLY_DOMAIN: still the example; set the host whose MX points at SendGrid": (
            shop.support_address.endswith(f"@{shop.reply_domain}")
            or not _is_example(shop.reply_domain)
        ),
        "PUBLIC_URL: mailed links need an https address that managers reach": (
            shop.public_url.startswith("https://") and not _is_loopback(shop.public_url)
        ),
    }


def _needed_by_workflows(settings: Settings) -> dict[str, bool]:
    needed = {
        "OPENAI_API_KEY: the key of the model's provider": bool(settings.openai_api_key),
        "OPENAI_DAILY_BUDGET: without it a flood of mail may cost any amount; write what a day may "
        "cost in USD, such as 25, with OPENAI_PRICES, or none for no limit": settings.budget_is_set,
        "SENDGRID_API_KEY: a key with the Mail Send permission": bool(settings.sendgrid_api_key),
        "OPENAI_BASE_URL: points at this machine, as a stand-in does": not _is_loopback(
            settings.openai_base_url
        ),
        "SENDGRID_BASE_URL: points at this machine, as a stand-in does": not _is_loopback(
            settings.sendgrid_base_url
        ),
    }
    if settings.payment_gateway == "stripe":
        needed |= {
            "STRIPE_API_KEY: is a test key, which moves no money": not (
                settings.stripe_api_key or ""
            ).startswith(("sk_test_", "rk_test_")),
            "STRIPE_API_BASE: points at this machine, as a stand-in does": not _is_loopback(
                settings.stripe_api_base
            ),
        }
    return needed


def _weak_keys(settings: Settings) -> list[str]:
    read = _Reader({})
    for key in settings.secret_keys:  # an old one still verifies, so it must be as good
        read.check("SECRET_KEY", key, values.check_secret)
    return read.problems


def _is_example(*names: str) -> bool:
    """Whether one of these addresses or hosts is in a domain that is nobody's (RFC 2606)."""
    return any(re.search(r"(\.|@|\A)example(\.(com|net|org))?\Z", name) for name in names)


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104 - recognised, not bound


def _with_secret_key(settings: Settings, key_file: Path) -> Settings:
    try:
        made = _make_key(key_file)
        key = key_file.read_text("ascii").strip()
    except (OSError, ValueError) as problem:
        raise _key_problem(f"{key_file} cannot be made or read ({problem})") from None
    if not key:
        raise _key_problem(f"{key_file} is empty, so delete it; it is made again")
    return replace(settings, secret_keys=(key,), made_key_file=key_file if made else None)


def _make_key(key_file: Path) -> bool:
    if key_file.exists():
        return False
    try:
        descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False  # another process was faster: its key is the one
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48))
    return True


def _key_problem(what: str) -> SettingsProblem:
    return SettingsProblem([f"SECRET_KEY: is not set, and {what}. Or {values.HOW_TO_MAKE_ONE}"])
