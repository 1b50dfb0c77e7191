"""The Flask app: makes the services from the settings, registers blueprints and commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Flask, render_template
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import HTTPException

from mailagent import cli, services
from mailagent.adapters import gateways, mail_providers
from mailagent.adapters.links import Links
from mailagent.adapters.mail_providers import MailSender
from mailagent.adapters.templates.engine import Templates
from mailagent.adapters.totp import Totp
from mailagent.demo.command import demo_command
from mailagent.domain.knowledge import Knowledge
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.mail.delivery import Blame, Refused, SendOutcome, Trace
from mailagent.domain.mail.message import OutboundMail
from mailagent.domain.refunds.payment import PaymentGateway
from mailagent.engine.client import WorkflowClient
from mailagent.settings import Settings, load_settings, log_format_of
from mailagent.store.clock import open_clock
from mailagent.store.console import run_subjects
from mailagent.store.database import open_database
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds.ledger import LedgerGateway
from mailagent.telemetry import log_ids, log_lines
from mailagent.web import api, metrics
from mailagent.web.approvals import pages
from mailagent.web.console.blueprints import BLUEPRINTS
from mailagent.web.guard import Cookies, check_guards
from mailagent.web.middleware import App, harden, watch
from mailagent.web.webhooks import gateway, mail
from mailagent.web.webhooks.signature import answer_refusal

ROOT = Path(__file__).resolve().parent.parent


class NotConfigured:
    """Takes the place of the model or the mail sender if its key is not set. Every call returns the reason."""

    def __init__(self, setting: str) -> None:
        self._why = f"{setting} is not set"

    def send(self, _mail: OutboundMail) -> SendOutcome:
        return Refused(self._why, Blame.ACCOUNT)

    def find_trace(self, _outbound_id: str) -> Trace:
        return Trace.NOT_ASKED

    def ask(self, *_arguments: Any) -> dict[str, Any]:
        return {"kind": "operator", "why": self._why}


def _give_another_chance(connection: sa.Connection) -> None:
    circuit_breakers.give_another_chance(connection, services.current().now())


# How long a reply waits for its second reader.
CHECK_SECONDS = 10.0


def make_services(settings: Settings) -> services.Services:
    """Make the services from the settings, and bind them. This opens no connection."""
    database = open_database(settings.database_url)
    bound = services.Services(
        database=database,
        workflow_client=WorkflowClient(
            database.engine, run_subjects.describe, _give_another_chance
        ),
        shop=settings.shop,
        policy=settings.policy,
        waits=settings.waits,
        links=Links(settings.secret_keys, settings.shop.public_url),
        templates=Templates(
            {"support_name": settings.shop.name, "support_address": settings.shop.support_address},
            settings.mail_templates,
        ),
        gateway=_gateway(settings, LedgerGateway(database, lambda: services.current().now())),
        model=_model(settings)
        if settings.runs_workflows
        else NotConfigured("MAILAGENT_ROLE=worker"),
        sender=_sender(settings),
        mail_provider=mail_providers.find(settings.mail_provider),
        inbound_keys=settings.inbound_keys,
        events_keys=settings.events_keys,
        orders_api_tokens=settings.orders_api_tokens,
        metrics_tokens=settings.metrics_tokens,
        totp=Totp(settings.secret_keys, settings.shop.name)
        if settings.second_factor == "totp"
        else None,
        token_prices=settings.token_prices,
        daily_budget=settings.daily_budget,
        pace=settings.pace,
        draft_replies=settings.draft_replies,
        knowledge=settings.knowledge or Knowledge(),
        check_model=_check_model(settings),
        retention=settings.retention,
        webhook_hours=settings.webhook_hours,
        limits=Limits(mails_per_hour=settings.mails_per_hour),
        now=open_clock(database),
    )
    services.bind(bound)
    return bound


def _gateway(settings: Settings, ledger: LedgerGateway) -> PaymentGateway:
    provider = gateways.find(settings.payment_gateway)
    if provider is None or not settings.runs_workflows:
        return ledger
    return gateways.RoutedGateway(provider.make(settings), provider.has_payment, ledger)


def _model(settings: Settings) -> services.Model:
    if not settings.openai_api_key:
        return NotConfigured("OPENAI_API_KEY")
    from mailagent.adapters.openai.client import ChatModel

    return ChatModel(settings.openai_api_key, settings.openai_base_url, settings.openai_model)


def _check_model(settings: Settings) -> services.Model | None:
    if not settings.openai_api_key or not settings.check_model or not settings.runs_workflows:
        return None
    from mailagent.adapters.openai.client import ChatModel

    return ChatModel(
        settings.openai_api_key, settings.openai_base_url, settings.check_model, CHECK_SECONDS
    )


def _sender(settings: Settings) -> MailSender:
    if not settings.runs_workflows:
        return NotConfigured("MAILAGENT_ROLE=worker")
    provider = mail_providers.find(settings.mail_provider)
    return provider.make_sender(settings) or NotConfigured(provider.key_setting)


def create_app(environ: Mapping[str, str] | None = None) -> Flask:
    """Return the app for an environment, the process's own by default. Raises SettingsProblem.

    This starts no workflows: `serving` and `flask worker` do.
    """
    settings = load_settings(os.environ if environ is None else environ)
    make_services(settings)
    app = App(
        "mailagent",
        root_path=str(ROOT / "mailagent"),
        static_folder=str(ROOT / "mailagent" / "web" / "static"),
        template_folder=str(ROOT / "templates"),
    )
    log_ids.describe_process(role=settings.role)
    secure = settings.shop.public_url.startswith("https://")
    app.config.update(
        SECRET_KEY=settings.secret_keys[0],
        SECRET_KEY_FALLBACKS=list(settings.secret_keys[1:]),
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=secure,
        # With the prefix __Host-, a subdomain cannot set the cookie.
        SESSION_COOKIE_NAME="__Host-mailagent" if secure else "mailagent",
        PERMANENT_SESSION_LIFETIME=settings.waits.ops_session_seconds,
        WTF_CSRF_TIME_LIMIT=None,  # a manager may leave the page open for days
        MAX_CONTENT_LENGTH=1024 * 1024,  # for pages and forms; webhooks set their own limit
        MAILAGENT=settings,
    )
    app.session_interface = Cookies()
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # a redirect would lose mail
    _register(app, settings)
    return app


def _register(app: Flask, settings: Settings) -> None:
    csrf = CSRFProtect(app)
    app.register_blueprint(metrics.health_blueprint)
    if settings.metrics_tokens:
        app.register_blueprint(metrics.blueprint)
        csrf.exempt(metrics.blueprint)  # a bearer token, no cookies
    if settings.runs_web:
        for webhooks in _webhooks(settings):
            app.register_blueprint(webhooks)
            csrf.exempt(webhooks)  # signed by the provider, no cookies
        app.register_blueprint(pages.blueprint)
        for blueprint in BLUEPRINTS:
            app.register_blueprint(blueprint)
        if settings.orders_api_tokens:
            app.register_blueprint(api.blueprint)
            csrf.exempt(api.blueprint)  # a bearer token, no cookies
    if settings.demo_url:
        from mailagent.demo import pages as demo_pages

        app.register_blueprint(demo_pages.blueprint)
    if settings.crash_at:
        from mailagent.demo.crash_point import plan

        marker = Path(settings.crash_marker) if settings.crash_marker else None
        plan(app, settings.crash_at, marker)
    cli.register(app)
    app.cli.add_command(demo_command)
    app.register_error_handler(CSRFError, _form_expired)
    app.register_error_handler(HTTPException, answer_refusal)
    app.after_request(harden)
    watch(app)
    check_guards(app)


def _webhooks(settings: Settings) -> Iterator[Blueprint]:
    yield mail.make_blueprint(mail_providers.find(settings.mail_provider))
    for provider in gateways.list_providers():
        webhook = provider.make_webhook(settings)
        if webhook is not None:
            yield gateway.make_blueprint(webhook)


def _form_expired(_error: CSRFError) -> tuple[str, int]:
    return render_template("form_expired.html"), 400


def configure_logging() -> None:
    """Log to standard error, one line a record."""
    log_lines.configure(log_format_of(os.environ))
