"""Makes the services from the settings, for web processes, workers and commands."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
import sqlalchemy as sa
from flask import Flask

from mailagent import services
from mailagent.adapters import gateways, mail_providers, order_sources
from mailagent.adapters.links import Links
from mailagent.adapters.mail_providers import MailSender
from mailagent.domain.knowledge import Knowledge
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.mail.delivery import Blame, Refused, SendOutcome, Trace
from mailagent.domain.mail.message import OutboundMail
from mailagent.domain.operations.provider import LEDGER, Provider, ProviderKind, Providers
from mailagent.domain.orders.source import OrderSource
from mailagent.domain.refunds.payment import PaymentGateway
from mailagent.domain.refunds.settlement import SettlementRules
from mailagent.engine import REFUND
from mailagent.engine.client import WorkflowClient
from mailagent.settings import Settings, SettingsProblem, load_settings
from mailagent.store import audit
from mailagent.store.clock import open_clock
from mailagent.store.console import run_subjects
from mailagent.store.database import Database, open_database
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds import refunds
from mailagent.store.refunds.ledger import LedgerGateway
from mailagent.telemetry.log_ids import describe_process

if TYPE_CHECKING:
    from mailagent.adapters.totp import Totp
    from mailagent.engine.run import Run


class NotConfigured:
    """Takes the place of the model or the mail sender if its key is not set, or if this process runs no
    workflows. Every call returns the reason."""

    def __init__(self, setting: str) -> None:
        self._why = f"{setting} is not set"

    def send(self, _mail: OutboundMail) -> SendOutcome:
        return Refused(self._why, Blame.ACCOUNT)

    def find_trace(self, _outbound_id: str) -> Trace:
        return Trace.NOT_ASKED

    def ask(self, *_arguments: Any) -> dict[str, Any]:
        return {"kind": "operator", "why": self._why}


def _give_another_chance(connection: sa.Connection, run: Run) -> None:
    """Let a run that is replayed ask its providers, and let the sweep look after its refund again."""
    circuit_breakers.give_another_chance(connection, services.current().now())
    if run.workflow == REFUND:
        refunds.count_anew(connection, run.subject)


# How long a reply waits for its second reader.
CHECK_SECONDS = 10.0


def make_services(settings: Settings, *, works: bool) -> None:
    """Make the services from the settings, and bind them. This opens no connection.

    `works`: this process runs workflows, so it needs the model and the mail sender.
    """
    database = open_database(settings.database_url)
    mail_provider = mail_providers.find(settings.mail_provider)
    live = services.Services(
        database=database,
        workflow_client=WorkflowClient(
            database.engine, run_subjects.describe, _give_another_chance, audit.count_replays
        ),
        shop=settings.shop,
        policy=settings.policy,
        waits=settings.waits,
        links=Links(settings.secret_keys, settings.shop.public_url),
        providers=_providers(settings),
        gateway=_gateway(settings, _ledger(settings, database)),
        model=_model(settings) if works else NotConfigured("MAILAGENT_ROLE=worker"),
        sender=_sender(settings) if works else NotConfigured("MAILAGENT_ROLE=worker"),
        mail_provider_name=settings.mail_provider,
        mail_templates=settings.mail_templates,
        order_source=_order_source(settings),
        inbound_keys=tuple(mail_provider.inbound_keys(settings)),
        events_keys=tuple(mail_provider.events_keys(settings)),
        orders_api_tokens=settings.orders_api_tokens,
        metrics_tokens=settings.metrics_tokens,
        totp=_totp(settings) if settings.second_factor == "totp" else None,
        prompt=settings.openai_prompt,
        token_prices=settings.token_prices,
        daily_budget=settings.daily_budget,
        rate_limit=settings.rate_limit,
        draft_replies=settings.draft_replies,
        knowledge=settings.knowledge or Knowledge(),
        check_model=_check_model(settings) if works else None,
        shadow=_shadow(settings) if works else None,
        retention=settings.retention,
        webhook_hours=settings.webhook_hours,
        limits=Limits(mails_per_hour=settings.mails_per_hour),
        now=open_clock(database),
    )
    services.bind(live)


def _providers(settings: Settings) -> Providers:
    mail = mail_providers.find(settings.mail_provider)
    gateway = gateways.find(settings.payment_gateway)
    source = order_sources.find(settings.order_source)
    return Providers(
        Provider(ProviderKind.MAIL, mail.name, mail.title, mail.key_setting),
        Provider(ProviderKind.GATEWAY, gateway.name, gateway.title, gateway.key_setting)
        if gateway
        else LEDGER,
        orders=Provider(ProviderKind.ORDERS, source.name, source.title, source.key_setting)
        if source
        else None,
    )


def _ledger(settings: Settings, database: Database) -> LedgerGateway:
    rules = SettlementRules(settings.settlement_days, at_once=settings.settles is not None)
    return LedgerGateway(database, lambda: services.current().now(), rules)


def _gateway(settings: Settings, ledger: LedgerGateway) -> PaymentGateway:
    provider = gateways.find(settings.payment_gateway)
    if provider is None or not settings.runs_workflows:
        return ledger
    return gateways.RoutedGateway(provider.make(settings), provider.has_payment, ledger)


def _order_source(settings: Settings) -> OrderSource | None:
    provider = order_sources.find(settings.order_source)
    return provider.make(settings) if provider else None


def _model(settings: Settings) -> services.Model:
    if not settings.openai_api_key:
        return NotConfigured("OPENAI_API_KEY")
    return open_model(settings, settings.openai_api_key, settings.openai_model)


def open_model(
    settings: Settings, key: str, name: str, seconds: float | None = None
) -> services.Model:
    """Return the model `name` at the server of the settings, called with an API key. `seconds`: its timeout,
    if not that of the settings."""
    from mailagent.adapters.openai.client import ChatModel

    return ChatModel(
        key, settings.openai_base_url, name, seconds or settings.openai_timeout_seconds
    )


def _check_model(settings: Settings) -> services.Model | None:
    if not settings.openai_api_key or not settings.check_model:
        return None
    return open_model(settings, settings.openai_api_key, settings.check_model, CHECK_SECONDS)


def _shadow(settings: Settings) -> services.Shadow | None:
    prices, budget = settings.shadow_prices or settings.token_prices, settings.shadow_daily_budget
    key = settings.shadow_api_key or settings.openai_api_key
    if not (settings.shadow_share and key and prices and budget):
        return None
    name = settings.shadow_model or settings.openai_model
    return services.Shadow(
        open_model(settings, key, name),
        name,
        settings.shadow_share,
        budget,
        prices,
        settings.shadow_prompt,
        has_own_key=settings.shadow_api_key is not None,
    )


def _sender(settings: Settings) -> MailSender:
    provider = mail_providers.find(settings.mail_provider)
    return provider.make_sender(settings) or NotConfigured(provider.key_setting)


def _totp(settings: Settings) -> Totp:
    from mailagent.adapters.totp import Totp

    return Totp(settings.secret_keys, settings.shop.name)


def plan_crash(app: Flask, settings: Settings) -> None:
    """Plan the crash that MAILAGENT_CRASH_AT asks for, in the demo and in tests."""
    if settings.crash_at:
        from mailagent.demo.crash_point import plan

        plan(app, settings.crash_at, settings.crash_marker)


def prepare_command(app: Flask, command: str) -> None:
    """Make the services that a command needs. Exits with 1 and every problem if the settings are wrong."""
    if command in ("demo", "setup"):
        return  # the demo's app is another process, with settings of its own; `setup` asks for them
    try:
        settings = load_settings(os.environ)
    except SettingsProblem as problem:
        click.echo(problem, err=True)
        sys.exit(1)
    works = settings.runs_workflows and command in ("backtest", "check", "worker")
    make_services(settings, works=works)
    describe_process(role=settings.role)
    app.config["MAILAGENT"] = settings
    if works and command == "worker":
        plan_crash(app, settings)
