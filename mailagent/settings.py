"""The settings of a process, read from its environment. `load_settings` reports all problems at once.

Checks that involve several settings are in `settings_checks`. Other modules get settings through `services`
and do not read the environment.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.fields import FieldInfo

from mailagent import settings_checks
from mailagent.adapters import gateways, mail_providers
from mailagent.adapters import setting_values as values
from mailagent.domain.knowledge import Knowledge
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
from mailagent.domain.shop import Retention, Shop, Waits
from mailagent.telemetry import log_lines

T = TypeVar("T")

DEFAULT_DATABASE_URL = "sqlite:///mailagent.db"
DEFAULT_MODEL = "gpt-5.4-mini"
SENDGRID_URL = "https://api.sendgrid.com"
KEY_FILE = Path(".mailagent-key")
ENVIRONMENTS = ("development", "production")


class SettingsProblem(Exception):
    """The settings cannot be used. The message lists every problem, one a line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(
            "mailagent cannot start with these settings:\n"
            + "\n".join(f"  - {p}" for p in problems)
        )
        self.problems = tuple(problems)


# --- types of settings ----------------------------------------------------------------------------
# A ValueError with several arguments stands for several problems.


def _among(*names: T) -> PlainValidator:
    def parse(text: str) -> T:
        if text not in names:
            raise ValueError(f"{text!r} is not known; use one of {', '.join(map(str, names))}")
        return names[[str(name) for name in names].index(text)]

    return PlainValidator(parse)


def _list_of(*parsers: Callable[[str], str]) -> PlainValidator:
    def parse(text: str) -> tuple[str, ...]:
        found, problems = [], []
        for part in filter(None, map(str.strip, text.split(","))):
            try:
                found.append(reduce(lambda value, parser: parser(value), parsers, part))
            except ValueError as problem:
                problems.append(str(problem))
        if problems:
            raise ValueError(*problems)
        return tuple(found)

    return PlainValidator(parse)


def _whole(most: int, words: str = "") -> PlainValidator:
    return PlainValidator(lambda text: values.parse_whole(text, most, words))


def _public_key(text: str) -> str:
    from mailagent.adapters.sendgrid.signature import parse_public_key

    parse_public_key(text)
    return text


def _beat_file(text: str) -> Path:
    path = Path(text).absolute()
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}; create it")
    return path


def _mail_templates(text: str) -> Path:
    """Return the shop's template folder. Renders every mail once to find errors."""
    from mailagent.adapters.templates import template_check

    folder = Path(text).absolute()
    problems = template_check.find_problems(folder)
    if problems:
        raise ValueError(*problems)
    return folder


def _policy(text: str) -> Policy:
    from mailagent.adapters.policy_file import PolicyFileProblem, load_policy

    try:
        return load_policy(Path(text))
    except PolicyFileProblem as problem:
        raise ValueError(*problem.problems) from None


def _knowledge(text: str) -> Knowledge:
    from mailagent.adapters.knowledge import read_knowledge

    return read_knowledge(Path(text))


def _budget(text: str) -> Decimal | Literal["none"]:
    return "none" if text == "none" else parse_amount(text)


def _gateway(text: str) -> str:
    gateways.find(text)
    return text


def _mail_provider(text: str) -> str:
    mail_providers.find(text)
    return text


_Line = Annotated[str, PlainValidator(values.parse_line)]
_Key = Annotated[str, PlainValidator(values.parse_key)]
_Url = Annotated[str, PlainValidator(values.parse_url)]
_Seconds = Annotated[int, PlainValidator(values.parse_seconds)]
_Days = Annotated[int, PlainValidator(values.parse_days)]
_Limit = Annotated[int, PlainValidator(values.parse_limit)]
_Texts = Annotated[tuple[str, ...], _list_of()]
_Addresses = Annotated[tuple[str, ...], _list_of(values.parse_address)]
_PublicKeys = Annotated[tuple[str, ...], _list_of(_public_key)]
# Always checked for strength: with the orders token, anyone can create orders and have them refunded.
_BearerTokens = Annotated[tuple[str, ...], _list_of(values.check_secret, values.parse_key)]


def _setting(
    description: str, default: object = None, *, name: str | None = None, shown: str | None = None
) -> Any:
    """Return the field of one environment variable.

    `name`: the variable, if not the field's name in capitals. `shown`: the default as the reference shows it,
    if not the value. Settings with an empty description are left out of the reference.
    """
    return Field(default, alias=name, description=description, json_schema_extra={"shown": shown})


# --- the settings ---------------------------------------------------------------------------------


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=str.upper)

    env: Annotated[str, _among(*ENVIRONMENTS)] = _setting(
        "`production` refuses to start without a secret, with an unsigned webhook, or with a fake provider",
        ENVIRONMENTS[0],
        name="MAILAGENT_ENV",
    )
    role: Annotated[str, _among("all", "web", "worker")] = _setting(
        "`web` (HTTP only), `worker` (workflows only), `all` (both in one process)",
        "all",
        name="MAILAGENT_ROLE",
    )
    worker_id: _Line | None = _setting(
        "id of the worker process: unique, and the same after a restart",
        shown="host name + process number",
    )
    worker_beat_file: Annotated[Path, PlainValidator(_beat_file)] | None = _setting(
        "a file that the worker touches every few seconds, for `python -m mailagent.healthcheck`"
    )
    database_url: Annotated[str, PlainValidator(values.parse_database_url)] = _setting(
        "the database of the app and of DBOS; use `postgresql+psycopg://…` in production",
        DEFAULT_DATABASE_URL,
    )
    secret_keys: _Texts = _setting(
        "signs links and encrypts second factors; to rotate keys, a comma-separated list, newest first",
        (),
        name="SECRET_KEY",
        shown="in development, the content of `.mailagent-key`, created on first start",
    )
    public_url: _Url = _setting("base URL of the links in mails", "http://localhost:8000")
    support_address: Annotated[str, PlainValidator(values.parse_address)] = _setting(
        "From address of replies", "support@shop.example"
    )
    reply_domain: Annotated[str, PlainValidator(values.parse_domain)] | None = _setting(
        "domain of reply addresses; its MX record points at SendGrid",
        shown="domain of `SUPPORT_ADDRESS`",
    )
    default_language: Annotated[str, PlainValidator(values.parse_locale)] = _setting(
        "language for customers whose language is unknown: a built-in one, with or without a region (`de`, "
        "`de_CH`), or one from `MAIL_TEMPLATES`",
        "en",
    )
    mail_templates: Annotated[Path, PlainValidator(_mail_templates)] | None = _setting(
        "a folder whose files replace those of `templates/mail`: [docs/mails.md](docs/mails.md)"
    )
    manager_emails: _Addresses = _setting(
        "managers who decide refunds, comma-separated, in order of escalation",
        ("manager@shop.example",),
    )
    team_emails: _Addresses = _setting(
        "people who get the conversations that the agent hands over", (), shown="`MANAGER_EMAILS`"
    )
    ops_emails: _Addresses = _setting(
        "operators: they may do everything in `/ops` and get mail about failed runs (without any, the team "
        "gets it)",
        (),
    )
    ops_session_seconds: _Seconds = _setting(
        "how long a login to `/ops` lasts", Waits().ops_session_seconds
    )
    second_factor: Annotated[str, _among("none", "totp")] = _setting(
        "second factor of a login to `/ops`: `none`, or `totp` (an authenticator app): "
        "[docs/operate.md](docs/operate.md#a-second-factor-for-logins)",
        "none",
        name="OPS_SECOND_FACTOR",
    )
    openai_api_key: _Key | None = _setting("API key of the model's provider")
    openai_base_url: _Url | None = _setting("a server with the Responses API", shown="OpenAI's")
    openai_model: _Line = _setting("the model that answers mail", DEFAULT_MODEL)
    check_model: _Line | None = _setting(
        "a cheaper model that reads the words of each reply a second time and can refuse them: "
        "[docs/configure.md](docs/configure.md#a-second-reader)",
        name="OPENAI_CHECK_MODEL",
    )
    token_prices: Annotated[TokenPrices, PlainValidator(parse_prices)] | None = _setting(
        "the model's price in USD per million tokens: `input,cached,output` or "
        "`input,cached,output,cache_write`; without it `/ops` shows tokens only",
        name="OPENAI_PRICES",
    )
    budget: Annotated[Decimal | Literal["none"], PlainValidator(_budget)] | None = _setting(
        "the most that the model may cost a day (UTC), in USD; above it, mail waits for the next day. Needs "
        "`OPENAI_PRICES`. `none`: no limit. Required in production",
        name="OPENAI_DAILY_BUDGET",
    )
    budget_alarm_percent: Annotated[int, _whole(100)] = _setting(
        "at this percentage of the daily budget, operators get a mail",
        ALARM_PERCENT,
        name="OPENAI_BUDGET_ALARM_PERCENT",
    )
    requests_per_minute: _Limit = _setting(
        "the most model calls per minute, of all workers together; `0`: no limit: "
        "[docs/monitoring.md](docs/monitoring.md#limits-and-fairness)",
        0,
        name="OPENAI_REQUESTS_PER_MINUTE",
        shown="–",
    )
    tokens_per_minute: _Limit = _setting(
        "the most tokens per minute, of all workers together; `0`: no limit",
        0,
        name="OPENAI_TOKENS_PER_MINUTE",
        shown="–",
    )
    mail_provider: Annotated[str, PlainValidator(_mail_provider)] = _setting(
        "the provider that receives and sends mail", "sendgrid"
    )
    sendgrid_api_key: _Key | None = _setting("API key with the permission Mail Send")
    sendgrid_base_url: _Url = _setting(
        "SendGrid's API; `https://api.eu.sendgrid.com` for EU accounts", SENDGRID_URL
    )
    inbound_keys: _PublicKeys = _setting(
        "verification key of Inbound Parse; to rotate keys, a comma-separated list",
        (),
        name="SENDGRID_INBOUND_PUBLIC_KEY",
    )
    events_keys: _PublicKeys = _setting(
        "verification key of the Event Webhook, or a list",
        (),
        name="SENDGRID_EVENTS_PUBLIC_KEY",
    )
    webhook_hours: Annotated[int, _whole(MOST_HOURS)] = _setting(
        "the greatest age of SendGrid's signatures, in hours; raise it, up to `96`, while delayed mail comes: "
        "[docs/operate.md](docs/operate.md#after-an-outage-of-more-than-a-day)",
        USUAL_HOURS,
    )
    payment_gateway: Annotated[str, PlainValidator(_gateway)] = _setting(
        "`ledger` only records refunds, and you pay them elsewhere; `stripe` pays them", "ledger"
    )
    stripe_api_key: _Key | None = _setting(
        "key that may write refunds and read PaymentIntents and Charges; required for `stripe`"
    )
    stripe_api_base: _Url | None = _setting("a server with Stripe's API", shown="Stripe's")
    stripe_webhook_secrets: Annotated[tuple[str, ...], _list_of(values.parse_webhook_secret)] = (
        _setting(
            "signing secret of the webhook `/webhooks/stripe`, or a list; without it there is no such route",
            (),
            name="STRIPE_WEBHOOK_SECRET",
        )
    )
    knowledge: Annotated[Knowledge, PlainValidator(_knowledge)] | None = _setting(
        "path of a folder of Markdown files that the agent may quote: [docs/knowledge.md](docs/knowledge.md)",
        name="SHOP_KNOWLEDGE",
    )
    refund_policy: Annotated[Policy, PlainValidator(_policy)] | None = _setting(
        "path of a TOML file with the shop's refund policy: [docs/policy.md](docs/policy.md)",
        shown="built-in policy",
    )
    draft_replies: Annotated[DraftReplies, _among(*DraftReplies)] = _setting(
        "which of the agent's answers need a click in `/ops`: `none`, `all`, or `refunds` (those about money): "
        "[docs/drafts.md](docs/drafts.md)",
        DraftReplies.NONE,
    )
    draft_refunds: Annotated[DraftRefunds, _among(*DraftRefunds)] = _setting(
        "`all`: a manager also decides the refunds that the policy would approve",
        DraftRefunds.NONE,
    )
    draft_reminder_seconds: _Seconds = _setting(
        "how long a draft waits before the team is reminded", Waits().draft_reminder_seconds
    )
    orders_api_tokens: _BearerTokens = _setting(
        "bearer token of `PUT /api/orders/<order_id>`, or a list; without it there is no such route",
        (),
        name="ORDERS_API_TOKEN",
    )
    metrics_tokens: _BearerTokens = _setting(
        "bearer token of `GET /metrics`, or a list; without it there is no such route",
        (),
        name="METRICS_TOKEN",
    )
    approval_expiry_seconds: _Seconds = _setting(
        "how long a refund waits for a manager before it is rejected",
        Waits().approval_expiry_seconds,
    )
    approval_reminder_seconds: _Seconds = _setting(
        "how long a manager may take before a reminder; there are at most three",
        Waits().approval_reminder_seconds,
    )
    approval_escalation_seconds: _Seconds = _setting(
        "how long a manager may take before the next one is asked, too; all of them may decide",
        Waits().approval_escalation_seconds,
    )
    manager_absence_seconds: _Seconds = _setting(
        "how long a manager is skipped after an automatic reply or a bounce",
        Waits().manager_absence_seconds,
    )
    mail_outcome_seconds: _Seconds = _setting(
        "how long to wait for SendGrid's events if it is unknown whether a mail was sent",
        Waits().mail_outcome_seconds,
    )
    unanswered_seconds: _Seconds = _setting(
        "how long a mail may stay unanswered before it is handed to people; after a wait for the "
        "daily budget, the time starts anew",
        Waits().unanswered_seconds,
    )
    raw_mail_days: _Days = _setting(
        "how long raw mail with its attachments is kept; the text stays",
        Waits().raw_mail_days,
    )
    run_days: _Days = _setting(
        "how long the histories of finished runs are kept: [docs/retention.md](docs/retention.md)",
        Retention().run_days,
    )
    mail_days: _Days | None = _setting(
        "days without mail after which the texts of a conversation are deleted; without it they stay"
    )
    conversation_concurrency: Annotated[int, _whole(values.MOST_CONVERSATIONS)] = _setting(
        "conversations that one worker answers at the same time; each takes 0.4 MB: "
        "[docs/monitoring.md](docs/monitoring.md#limits-and-fairness)",
        64,
    )
    mails_per_hour: Annotated[int, _whole(values.MOST_MAILS_AN_HOUR)] = _setting(
        "mails per hour that are answered at once, from all senders together; the rest is throttled: "
        "[docs/operate.md](docs/operate.md#mail-that-is-throttled)",
        Limits().mails_per_hour,
    )
    log_format_set: Annotated[str, _among(*log_lines.FORMATS)] | None = _setting(
        "format of the log: `text` or `json`: [docs/monitoring.md](docs/monitoring.md#the-log)",
        name="LOG_FORMAT",
        shown="`json` in production, else `text`",
    )
    otlp_endpoint: _Url | None = _setting(
        "turns on tracing: the URL of an OTLP collector over HTTP, such as `http://collector:4318`",
        name="OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    conductor_key: _Key | None = _setting(
        "connects workers to the DBOS console (needs `dbos[enterprise]`)", name="DBOS_CONDUCTOR_KEY"
    )
    conductor_url: Annotated[str, PlainValidator(values.parse_conductor_url)] | None = _setting(
        "your own console", name="DBOS_CONDUCTOR_URL", shown="DBOS's"
    )
    metadata_only: Annotated[str, _among("no", "yes")] = _setting(
        "`yes`: the console gets no inputs, outputs and errors of runs and steps (they hold ids, kinds and "
        "reasons): [docs/operate.md](docs/operate.md#the-dbos-console)",
        "no",
        name="DBOS_CONDUCTOR_METADATA_ONLY",
    )
    # Set by `flask demo` and by tests.
    demo_url: str | None = _setting("", name="MAILAGENT_DEMO")
    crash_at: str | None = _setting("", name="MAILAGENT_CRASH_AT")
    crash_marker: Path | None = _setting("", name="MAILAGENT_CRASH_ONCE")

    @property
    def production(self) -> bool:
        return self.env == "production"

    @property
    def runs_web(self) -> bool:
        return self.role in ("all", "web")

    @property
    def runs_workflows(self) -> bool:
        return self.role in ("all", "worker")

    @property
    def conductor_metadata_only(self) -> bool:
        return self.metadata_only == "yes"

    @property
    def log_format(self) -> str:
        return self.log_format_set or log_lines.FORMATS[self.production]

    @cached_property
    def shop(self) -> Shop:
        return Shop(
            support_address=self.support_address,
            reply_domain=self.reply_domain or self.support_address.rpartition("@")[2],
            manager_emails=self.manager_emails,
            team_emails=self.team_emails or self.manager_emails,
            public_url=self.public_url.rstrip("/"),
            ops_emails=self.ops_emails,
            default_language=self.default_language,
        )

    @cached_property
    def policy(self) -> Policy:
        return replace(
            self.refund_policy or Policy(), drafts_refunds=self.draft_refunds is DraftRefunds.ALL
        )

    @cached_property
    def waits(self) -> Waits:
        own = {name for name in Waits.__dataclass_fields__ if name in Settings.model_fields}
        return Waits(**{name: getattr(self, name) for name in own})

    @property
    def retention(self) -> Retention:
        return Retention(self.run_days, self.mail_days)

    @property
    def pace(self) -> RateLimit:
        return RateLimit(self.requests_per_minute or None, self.tokens_per_minute or None)

    @property
    def daily_budget(self) -> DailyBudget | None:
        if self.budget is None or self.budget == "none":
            return None
        return DailyBudget(self.budget, self.budget_alarm_percent)


# The groups of the reference, each by its first setting.
_GROUPS = {
    "MAILAGENT_ENV": "process",
    "SUPPORT_ADDRESS": "shop",
    "OPS_EMAILS": "console",
    "OPENAI_API_KEY": "openai",
    "MAIL_PROVIDER": "mail provider",
    "PAYMENT_GATEWAY": "payments",
    "REFUND_POLICY": "refunds and drafts",
    "ORDERS_API_TOKEN": "tokens",
    "APPROVAL_EXPIRY_SECONDS": "deadlines",
    "RAW_MAIL_DAYS": "retention",
    "CONVERSATION_CONCURRENCY": "load",
    "LOG_FORMAT": "observability",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable, as the reference lists it."""

    name: str
    default: str
    meaning: str
    group: str


def list_settings() -> list[Setting]:
    """Return the settings of the reference, in its order."""
    listed, group = [], ""
    for field in Settings.model_fields.values():
        if not field.description or not field.alias:
            continue
        group = _GROUPS.get(field.alias, group)
        listed.append(Setting(field.alias, _shown(field), field.description, group))
    return listed


def _shown(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    shown = extra["shown"] if isinstance(extra, dict) else None
    if shown is not None:
        return str(shown)
    default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    return "–" if default in ("", None) else f"`{default}`"


SETTINGS = list_settings()


def load_settings(environ: Mapping[str, str], key_file: Path = KEY_FILE) -> Settings:
    """Return the settings in `environ`. In development, a missing SECRET_KEY is generated into `key_file`.

    Raises SettingsProblem with all problems.
    """
    read = [field for field in Settings.model_fields.values() if field.json_schema_extra]
    names = [str(field.alias) for field in read]
    given = {name: text for name in names if (text := environ.get(name, "").strip())}
    problems, wrong = [], set[str]()
    try:
        settings = Settings.model_validate(given)
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            name = str(error["loc"][0])
            wrong.add(name)
            problems += [f"{name}: {each}" for each in error["ctx"]["error"].args]
        settings = Settings.model_validate(
            {name: given[name] for name in given if name not in wrong}
        )
    problems += [
        each for each in settings_checks.find_problems(settings) if not _names(each, wrong)
    ]
    if problems:
        raise SettingsProblem(problems)
    return settings if settings.secret_keys else _with_secret_key(settings, key_file)


def _names(problem: str, settings: set[str]) -> bool:
    """Whether a problem names one of these settings."""
    return not settings.isdisjoint(re.findall(r"[A-Z_]{4,}", problem))


def _with_secret_key(settings: Settings, key_file: Path) -> Settings:
    """Add the key in a file that only its owner can read. Create the file if there is none."""
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(48))
        key = key_file.read_text("ascii").strip()
    except (OSError, ValueError) as problem:
        raise _key_problem(f"{key_file} cannot be created or read ({problem})") from None
    if not key:
        raise _key_problem(f"{key_file} is empty, so delete it; the next start creates it again")
    return settings.model_copy(update={"secret_keys": (key,)})


def _key_problem(what: str) -> SettingsProblem:
    return SettingsProblem([f"SECRET_KEY: is not set, and {what}. Or {values.HOW_TO_MAKE_ONE}"])
