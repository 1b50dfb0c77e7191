"""The settings by topic: each field has the environment variable's name, default and description.

Each class is a group of the reference. `settings` puts them together and reads the environment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator

from mailagent.adapters import gateways, mail_providers, order_sources
from mailagent.domain.knowledge import Knowledge
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.mail.draft import DraftRefunds, DraftReplies
from mailagent.domain.mail.webhook import MOST_HOURS, USUAL_HOURS
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.shop import Retention, Waits
from mailagent.settings import types
from mailagent.settings.topic import Topic, setting
from mailagent.telemetry import log_lines

DEFAULT_DATABASE_URL = "sqlite:///mailagent.db"


class Process(Topic):
    """Process."""

    env: Annotated[str, types.among("development", "production")] = setting(
        "`production` refuses to start without a secret, with an unsigned webhook, or with a fake provider",
        "development",
        name="MAILAGENT_ENV",
    )
    role: Annotated[str, types.among("all", "web", "worker")] = setting(
        "`web` (HTTP only), `worker` (workflows only), `all` (both in one process)",
        "all",
        name="MAILAGENT_ROLE",
    )
    worker_id: types.Line | None = setting(
        "id of the worker process: unique, and the same after a restart",
        shown="host name + process number",
    )
    worker_beat_file: Annotated[Path, PlainValidator(types.parse_beat_file)] | None = setting(
        "a file that the worker touches every few seconds, for `python -m mailagent.healthcheck`"
    )
    database_url: Annotated[str, PlainValidator(types.parse_database_url)] = setting(
        "the database of the app and of DBOS; use `postgresql+psycopg://…` in production",
        DEFAULT_DATABASE_URL,
    )
    secret_keys: types.Texts = setting(
        "signs links and encrypts second factors; to rotate keys, a comma-separated list, newest first",
        (),
        name="SECRET_KEY",
        shown="in development, the content of `.mailagent-key`, created on first start",
    )
    public_url: types.Url = setting("base URL of the links in mails", "http://localhost:8000")

    @property
    def production(self) -> bool:
        return self.env == "production"

    @property
    def runs_web(self) -> bool:
        return self.role in ("all", "web")

    @property
    def runs_workflows(self) -> bool:
        return self.role in ("all", "worker")


class ShopTopic(Topic):
    """Shop."""

    support_address: Annotated[str, PlainValidator(types.parse_address)] = setting(
        "From address of replies", "support@shop.example"
    )
    reply_domain: Annotated[str, PlainValidator(types.parse_domain)] | None = setting(
        "domain of reply addresses; its MX record points at SendGrid",
        shown="domain of `SUPPORT_ADDRESS`",
    )
    contact_form_senders: types.Addresses = setting(
        "From addresses of the shop's contact forms, such as `mailer@shopify.com`: the Reply-To of their mail "
        "is its author. The shop's notices of orders need another From address",
        (),
    )
    default_language: Annotated[str, PlainValidator(types.parse_locale)] = setting(
        "language for customers whose language is unknown: a built-in one, with or without a region (`de`, "
        "`de_CH`), or one from `MAIL_TEMPLATES`",
        "en",
    )
    mail_templates: Annotated[Path, PlainValidator(types.parse_mail_templates)] | None = setting(
        "a folder whose files replace those of `templates/mail`: [docs/mails.md](docs/mails.md)"
    )
    knowledge: Annotated[Knowledge, PlainValidator(types.parse_knowledge)] | None = setting(
        "path of a folder of Markdown files that the agent may quote: [docs/knowledge.md](docs/knowledge.md)",
        name="SHOP_KNOWLEDGE",
    )
    ask_if_helped: Annotated[str, types.among("no", "yes")] = setting(
        "`yes`: replies of the agent end with two links by which customers say whether it helped",
        "no",
    )
    manager_emails: types.Addresses = setting(
        "managers who decide refunds, comma-separated, in order of escalation",
        ("manager@shop.example",),
    )
    team_emails: types.Addresses = setting(
        "people who get the conversations that the agent hands over", (), shown="`MANAGER_EMAILS`"
    )


class Console(Topic):
    """Console."""

    ops_emails: types.Addresses = setting(
        "operators: they may do everything in `/ops` and get mail about failed runs (without any, the team "
        "gets it)",
        (),
    )
    report_emails: types.Addresses = setting(
        "owners: they get a report every week, and may look at `/ops` and its report", ()
    )
    ops_session_seconds: types.Seconds = setting(
        "how long a login to `/ops` lasts", Waits().ops_session_seconds
    )
    second_factor: Annotated[str, types.among("none", "totp")] = setting(
        "second factor of a login to `/ops`: `none`, or `totp` (an authenticator app): "
        "[docs/operate.md](docs/operate.md#a-second-factor-for-logins)",
        "none",
        name="OPS_SECOND_FACTOR",
    )


class MailProvider(Topic):
    """Mail provider."""

    mail_provider: Annotated[str, types.known(mail_providers.find)] = setting(
        "the provider that receives and sends mail", "sendgrid"
    )
    sendgrid_api_key: types.Key | None = setting("API key with the permission Mail Send")
    sendgrid_base_url: types.Url = setting(
        "SendGrid's API; `https://api.eu.sendgrid.com` for EU accounts", "https://api.sendgrid.com"
    )
    sendgrid_inbound_keys: types.PublicKeys = setting(
        "verification key of Inbound Parse; to rotate keys, a comma-separated list",
        (),
        name="SENDGRID_INBOUND_PUBLIC_KEY",
    )
    sendgrid_events_keys: types.PublicKeys = setting(
        "verification key of the Event Webhook, or a list", (), name="SENDGRID_EVENTS_PUBLIC_KEY"
    )
    webhook_hours: Annotated[int, types.whole(MOST_HOURS)] = setting(
        "the greatest age of SendGrid's signatures, in hours; raise it, up to `96`, while delayed mail comes: "
        "[docs/operate.md](docs/operate.md#after-an-outage-of-more-than-a-day)",
        USUAL_HOURS,
    )


class Payments(Topic):
    """Payments."""

    payment_gateway: Annotated[str, types.known(gateways.find)] = setting(
        "`ledger` only records refunds; `stripe`, `shopify`, `woocommerce` pay them", "ledger"
    )
    settlement_days: types.Days | None = setting(
        "days within which you pay what the ledger records, as customers are told at once; without it they "
        "hear when you have paid: [docs/money.md](docs/money.md#settle-what-the-ledger-recorded)"
    )
    stripe_api_key: types.Key | None = setting(
        "key that may write refunds and read PaymentIntents and Charges; required for `stripe`"
    )
    stripe_api_base: types.Url | None = setting("a server with Stripe's API", shown="Stripe's")
    stripe_webhook_secrets: types.WebhookSecrets = setting(
        "signing secret of the webhook `/webhooks/stripe`, or a list; without it there is no such route",
        (),
        name="STRIPE_WEBHOOK_SECRET",
    )


class OrdersTopic(Topic):
    """Orders."""

    order_source: Annotated[str, types.known(order_sources.find)] = setting(
        "whose orders: `imported`, or by `http`, `shopify`, `woocommerce`: [docs/orders.md](docs/orders.md)",
        "imported",
    )
    order_source_url: types.Url | None = setting("base URL of the order source")
    order_source_token: types.Key | None = setting("its token; required unless orders are imported")
    order_source_webhook_secrets: types.Keys = setting(
        "signing secret of its webhook, or a list: [docs/platforms.md](docs/platforms.md)",
        (),
        name="ORDER_SOURCE_WEBHOOK_SECRET",
    )


class RefundsAndDrafts(Topic):
    """Refunds and drafts."""

    refund_policy: Annotated[Policy, PlainValidator(types.parse_policy)] | None = setting(
        "path of a TOML file with the shop's refund policy: [docs/policy.md](docs/policy.md)",
        shown="built-in policy",
    )
    draft_replies: Annotated[DraftReplies, types.among(*DraftReplies)] = setting(
        "which of the agent's answers need a click in `/ops`: `none`, `all`, or `refunds` (those about money): "
        "[docs/drafts.md](docs/drafts.md)",
        DraftReplies.NONE,
    )
    draft_refunds: Annotated[DraftRefunds, types.among(*DraftRefunds)] = setting(
        "`all`: a manager also decides the refunds that the policy would approve", DraftRefunds.NONE
    )
    draft_reminder_seconds: types.Seconds = setting(
        "how long a draft waits before the team is reminded", Waits().draft_reminder_seconds
    )

    @cached_property
    def policy(self) -> Policy:
        return replace(
            self.refund_policy or Policy(), drafts_refunds=self.draft_refunds is DraftRefunds.ALL
        )


class Tokens(Topic):
    """Tokens."""

    orders_api_tokens: types.BearerTokens = setting(
        "bearer token of `/api/…` for orders, returns and goodwill codes, or a list; without it there are no "
        "such routes",
        (),
        name="ORDERS_API_TOKEN",
    )
    metrics_tokens: types.BearerTokens = setting(
        "bearer token of `GET /metrics`, or a list; without it there is no such route",
        (),
        name="METRICS_TOKEN",
    )


class Deadlines(Topic):
    """Deadlines."""

    approval_expiry_seconds: types.Seconds = setting(
        "how long a refund waits for a manager before it expires", Waits().approval_expiry_seconds
    )
    approval_reminder_seconds: types.Seconds = setting(
        "how long a manager may take before a reminder; there are at most three",
        Waits().approval_reminder_seconds,
    )
    approval_escalation_seconds: types.Seconds = setting(
        "how long a manager may take before the next one is asked, too; all of them may decide",
        Waits().approval_escalation_seconds,
    )
    approval_undo_seconds_set: types.Pause | None = setting(
        "how long a manager can take a decision back; nothing is paid before. 0: not at all",
        name="APPROVAL_UNDO_SECONDS",
        shown=f"`{Waits().approval_undo_seconds}` in production, else `0`",
    )
    manager_absence_seconds: types.Seconds = setting(
        "how long a manager is skipped after an automatic reply or a bounce",
        Waits().manager_absence_seconds,
    )
    mail_outcome_seconds: types.Seconds = setting(
        "how long to wait for SendGrid's events if it is unknown whether a mail was sent",
        Waits().mail_outcome_seconds,
    )
    unanswered_seconds: types.Seconds = setting(
        "how long a mail may stay unanswered before it is handed to people; after a wait for the "
        "daily budget, the time starts anew",
        Waits().unanswered_seconds,
    )


class RetentionTopic(Topic):
    """Retention."""

    raw_mail_days: types.Days = setting(
        "how long raw mail with its attachments is kept; the text stays", Waits().raw_mail_days
    )
    run_days: types.Days = setting(
        "how long the histories of finished runs are kept: [docs/retention.md](docs/retention.md)",
        Retention().run_days,
    )
    mail_days: types.Days | None = setting(
        "days without mail after which the texts of a conversation are deleted; without it they stay"
    )

    @property
    def retention(self) -> Retention:
        return Retention(self.run_days, self.mail_days)


class Load(Topic):
    """Load."""

    conversation_concurrency: Annotated[int, types.whole(types.MOST_CONVERSATIONS)] = setting(
        "conversations that one worker answers at the same time; each takes 0.4 MB: "
        "[docs/monitoring.md](docs/monitoring.md#limits-and-fairness)",
        64,
    )
    mails_per_hour: Annotated[int, types.whole(types.MOST_MAILS_AN_HOUR)] = setting(
        "mails per hour that are answered at once, from all senders together; the rest is throttled: "
        "[docs/operate.md](docs/operate.md#mail-that-is-throttled)",
        Limits().mails_per_hour,
    )


class Observability(Topic):
    """Observability."""

    log_format_set: Annotated[str, types.among(*log_lines.FORMATS)] | None = setting(
        "format of the log: `text` or `json`: [docs/monitoring.md](docs/monitoring.md#the-log)",
        name="LOG_FORMAT",
        shown="`json` in production, else `text`",
    )
    otlp_endpoint: types.Url | None = setting(
        "turns on tracing: the URL of an OTLP collector over HTTP, such as `http://collector:4318`",
        name="OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    conductor_key: types.Key | None = setting(
        "connects workers to the DBOS console (needs `dbos[enterprise]`)", name="DBOS_CONDUCTOR_KEY"
    )
    conductor_url: Annotated[str, types.url("ws", "http", "https", "wss")] | None = setting(
        "your own console", name="DBOS_CONDUCTOR_URL", shown="DBOS's"
    )
    metadata_only: Annotated[str, types.among("no", "yes")] = setting(
        "`yes`: the console gets no inputs, outputs and errors of runs and steps (they hold ids, kinds and "
        "reasons): [docs/console.md](docs/console.md#what-the-console-gets)",
        "no",
        name="DBOS_CONDUCTOR_METADATA_ONLY",
    )
    # Set by `flask demo` and by tests.
    demo_url: str | None = setting("", name="MAILAGENT_DEMO")
    settles: Annotated[str, types.among("at_once")] | None = setting("", name="MAILAGENT_SETTLES")
    crash_at: str | None = setting("", name="MAILAGENT_CRASH_AT")
    crash_marker: Path | None = setting("", name="MAILAGENT_CRASH_ONCE")

    @property
    def conductor_metadata_only(self) -> bool:
        return self.metadata_only == "yes"
