"""The demo's OpenAI, SendGrid and order server, and the environment that points the app at them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from mailagent.demo import shop
from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.openai import MODEL_NAME, OpenAIServer
from mailagent.demo.fakes.orders import OrderServer
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import WebhookKey, WebhookSender
from mailagent.settings import SETTINGS, find_misspelt

# What a developer may set for the demo. All other settings are not passed on: a demo must not pay, send,
# trace or connect anywhere.
_OBEYED = frozenset(
    "REFUND_POLICY DRAFT_REPLIES DRAFT_REFUNDS DRAFT_REMINDER_SECONDS SHOP_KNOWLEDGE MAIL_TEMPLATES"
    " DEFAULT_LANGUAGE OPS_SECOND_FACTOR OPS_SESSION_SECONDS APPROVAL_EXPIRY_SECONDS"
    " APPROVAL_REMINDER_SECONDS APPROVAL_ESCALATION_SECONDS MANAGER_ABSENCE_SECONDS UNANSWERED_SECONDS"
    " MAIL_OUTCOME_SECONDS MAILS_PER_HOUR LOG_FORMAT".split()
)
_FOREIGN = tuple("OPENAI_ MAILAGENT_ SENDGRID_ STRIPE_ DBOS_ OTEL_ FLASK_ GUNICORN_".split())
_FOREIGN_NAMES = {"WEB_CONCURRENCY", "PORT", *(setting.name for setting in SETTINGS)} - _OBEYED
_READ_BY_FLASK = ("FLASK_APP", "FLASK_DEMO_", "FLASK_ENV_FILE", "FLASK_RUN_FROM_", "FLASK_SKIP_")
_OWN = "the demo plays shop, mail and money, on a server and a database of its own: nothing real is touched"

# After a crash the app waits this long for SendGrid's events before it sends a mail again. The demo's
# events arrive within a second of the restart.
_MAIL_OUTCOME_SECONDS = 30


class Providers:
    """Runs the servers and the webhook sender in threads of this process, for an app on `app_port`.

    `environ` is the caller's environment; an OPENAI_API_KEY in it means that the real model answers.
    """

    def __init__(
        self, folder: Path, app_port: int, environ: Mapping[str, str], latency_seconds: float = 0.0
    ) -> None:
        self.app_url = f"http://127.0.0.1:{app_port}"
        self.mailboxes = Mailboxes()
        self.uses_real_model = bool(environ.get("OPENAI_API_KEY", "").strip())
        self._environ = environ
        self._database = folder / "mailagent.db"
        self._inbound_key = WebhookKey(folder / "inbound.pem")
        self._events_key = WebhookKey(folder / "events.pem")
        origins = (self.app_url, f"http://localhost:{app_port}")
        self._openai = OpenAIServer(latency_seconds)
        self._orders = OrderServer()
        # Of the warehouse, which tells what came back.
        self.orders_token = secrets.token_urlsafe(32)
        self.sendgrid = SendGridServer(self.mailboxes, shop.SUPPORT_ADDRESS, origins)
        self._webhook_sender = WebhookSender(
            self.mailboxes, self.app_url, self._inbound_key, self._events_key
        )

    def start(self) -> None:
        self._openai.start()
        self._orders.start()
        self.sendgrid.start()
        self._webhook_sender.start()

    def stop(self) -> None:
        self._webhook_sender.stop()
        self._openai.stop()
        self._orders.stop()
        self.sendgrid.stop()

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the app and its commands."""
        kept = {name: value for name, value in self._environ.items() if not _is_foreign(name)}
        own = {name: value for name, value in self._settings().items() if name not in _OBEYED}
        defaults = {name: value for name, value in self._settings().items() if name in _OBEYED}
        return {**defaults, **kept, **self._model_settings(), **own}

    def tell_settings(self) -> list[str]:
        """Return a sentence for the caller's settings that are obeyed, and for those that are not, with why."""
        given = [name for name in sorted(self._environ) if self._environ[name].strip()]
        misspelt = find_misspelt(given)
        of_model = [name for name in given if name.startswith("OPENAI_") and name not in misspelt]
        obeyed = [name for name in given if name in _OBEYED]
        obeyed += of_model if self.uses_real_model else []
        ports = [name for name in given if name in ("FLASK_RUN_PORT", "PORT")]
        refused = sorted(set(filter(_is_foreign, given)) - {*of_model, *ports, *misspelt})
        refused = [name for name in refused if not name.startswith(_READ_BY_FLASK)]
        told = [f"Your settings hold: {', '.join(obeyed)}."] if obeyed else []
        if of_model and not self.uses_real_model:
            why = "without OPENAI_API_KEY the model is scripted"
            told.append(f"Not used: {', '.join(of_model)} ({why}).")
        if refused:
            told.append(f"Not used: {', '.join(refused)} ({_OWN}).")
        for name, meant in misspelt.items():
            told.append(f"Not used: {name} (no such setting: did you mean {meant}?).")
        if ports:
            told.append(f"Not used: {', '.join(ports)} (give the port by --port).")
        return told

    def _settings(self) -> dict[str, str]:
        return {
            "DATABASE_URL": f"sqlite:///{self._database}",
            "SENDGRID_BASE_URL": self.sendgrid.url,
            "SENDGRID_API_KEY": "demo",
            "SENDGRID_INBOUND_PUBLIC_KEY": self._inbound_key.public_text(),
            "SENDGRID_EVENTS_PUBLIC_KEY": self._events_key.public_text(),
            "PUBLIC_URL": self.app_url,
            "SUPPORT_ADDRESS": shop.SUPPORT_ADDRESS,
            "REPLY_DOMAIN": shop.REPLY_DOMAIN,
            "MANAGER_EMAILS": ",".join(shop.MANAGERS),
            "TEAM_EMAILS": ",".join(shop.TEAM),
            "OPS_EMAILS": ",".join(shop.OPERATORS),
            "SECRET_KEY": secrets.token_urlsafe(48),
            # The same after a restart, so that DBOS recovers the worker's own runs.
            "WORKER_ID": "demo",
            "MAIL_OUTCOME_SECONDS": str(_MAIL_OUTCOME_SECONDS),
            "MAILAGENT_DEMO": self.sendgrid.url,
            "MAILAGENT_SETTLES": "at_once",
            "ORDER_SOURCE": "http",
            "ORDER_SOURCE_URL": self._orders.url,
            "ORDER_SOURCE_TOKEN": self._orders.token,
            "ORDERS_API_TOKEN": self.orders_token,
            "REFUND_POLICY": str(Path(__file__).parents[1] / "policy.toml"),
            "SHOP_KNOWLEDGE": str(Path(__file__).parents[1] / "knowledge"),
            # Otherwise the SDKs would use a proxy even for local servers.
            "NO_PROXY": "127.0.0.1,localhost," + self._environ.get("NO_PROXY", ""),
            "no_proxy": "127.0.0.1,localhost," + self._environ.get("no_proxy", ""),
            "PYTHONUNBUFFERED": "1",
            "FLASK_SKIP_DOTENV": "1",  # `flask demo` has read it, and says what holds of it
        }

    def _model_settings(self) -> dict[str, str]:
        if self.uses_real_model:
            return {
                name: value for name, value in self._environ.items() if name.startswith("OPENAI_")
            }
        return {
            "OPENAI_BASE_URL": f"{self._openai.url}/v1",
            "OPENAI_API_KEY": "demo",
            "OPENAI_MODEL": MODEL_NAME,
        }


def _is_foreign(name: str) -> bool:
    return name in _FOREIGN_NAMES or name.startswith(_FOREIGN)
