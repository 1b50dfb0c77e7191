"""The Flask app: services from the settings, pages, webhooks and commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from flask import Blueprint, Flask, render_template
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import HTTPException

from mailagent import cli
from mailagent.adapters import gateways, mail_providers
from mailagent.adapters.platforms import webhook as platform_webhook
from mailagent.bootstrap import make_services, plan_crash
from mailagent.settings import Settings, load_settings
from mailagent.telemetry.log_ids import describe_process
from mailagent.web import api, metrics
from mailagent.web.approvals import pages
from mailagent.web.console.blueprints import BLUEPRINTS
from mailagent.web.guard import Cookies, allow_files, check_guards
from mailagent.web.language import speak
from mailagent.web.middleware import App, harden, watch
from mailagent.web.owners import helped, report, settlements
from mailagent.web.webhooks import gateway, mail, order_changes
from mailagent.web.webhooks.signature import answer_refusal

ROOT = Path(__file__).resolve().parent.parent


def create_app(environ: Mapping[str, str] | None = None) -> Flask:
    """Return the app for an environment, the process's own by default. Raises SettingsProblem.

    This starts no workflows: `serving` and `flask worker` do.
    """
    settings = load_settings(os.environ if environ is None else environ)
    make_services(settings, works=settings.runs_workflows)
    app = App(
        "mailagent",
        root_path=str(ROOT / "mailagent"),
        static_folder=str(ROOT / "mailagent" / "web" / "static"),
        template_folder=str(ROOT / "templates"),
    )
    describe_process(role=settings.role)
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
        MAX_CONTENT_LENGTH=1024 * 1024,  # for forms without files; webhooks set their own limit
        MAILAGENT=settings,
    )
    app.session_interface = Cookies()
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # a redirect would lose mail
    _register(app, settings)
    return app


def _register(app: Flask, settings: Settings) -> None:
    app.before_request(allow_files)
    csrf = CSRFProtect(app)
    speak(app)
    app.register_blueprint(metrics.health_blueprint)
    if settings.metrics_tokens:
        app.register_blueprint(metrics.blueprint)
        csrf.exempt(metrics.blueprint)  # a bearer token, no cookies
    if settings.runs_web:
        for webhooks in _webhooks(settings):
            app.register_blueprint(webhooks)
            csrf.exempt(webhooks)  # signed by the provider, no cookies
        app.register_blueprint(pages.blueprint)
        for blueprint in (*BLUEPRINTS, settlements.blueprint, report.blueprint, helped.blueprint):
            app.register_blueprint(blueprint)
        if settings.orders_api_tokens:
            app.register_blueprint(api.blueprint)
            csrf.exempt(api.blueprint)  # a bearer token, no cookies
    if settings.demo_url:
        from mailagent.demo import pages as demo_pages

        app.register_blueprint(demo_pages.blueprint)
    plan_crash(app, settings)
    cli.register(app)
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
    of_orders = platform_webhook.make_webhook(settings)
    if of_orders is not None:
        yield order_changes.make_blueprint(of_orders)


def _form_expired(_error: CSRFError) -> tuple[str, int]:
    return render_template("form_expired.html"), 400
