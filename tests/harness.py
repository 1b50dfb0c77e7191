"""A whole shop on this machine: the real app, the real engine, and local providers over HTTP."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch
from urllib.parse import parse_qs

import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.app import create_app
from mailagent.cli.worker import engine_of
from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.fakes.mailboxes import Mailboxes, MailContent, SentMail
from mailagent.demo.fakes.openai import OpenAIServer
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from mailagent.domain.operations.retry import backoff_seconds
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund
from mailagent.services import Services
from mailagent.store.console import sessions
from mailagent.store.refunds import order_import, refunds
from mailagent.web.guard import SESSION_KEY
from mailagent.workflows import launch as workflows
from tests.cast import ADA, MAX, MONA, OLGA, SUPPORT, TESS
from tests.databases import QUEUE_POLL_SECONDS

if TYPE_CHECKING:
    from tests.order_server import OrderServer
    from tests.platforms.shopify_server import ShopifyServer

T = TypeVar("T")

_numbers = itertools.count(1)


def letter(text: str, **changes: Any) -> MailContent:
    """Return a mail that Ada writes to the shop; `message_id` is fresh unless given."""
    number = next(_numbers)
    values: dict[str, Any] = {
        "mail_number": f"letter-{number}",
        "from_name": "Ada Example",
        "from_address": ADA,
        "to": SUPPORT,
        "subject": "My order",
        "text": text,
        "message_id": f"m{number}@example.com",
        "in_reply_to": None,
        "references": "",
        "aligned": True,
        "sent_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return MailContent(**(values | changes))


@dataclass
class Faults:
    """What the local providers do wrong, next first; afterwards they are well again.

    `asked`: the bodies of the requests that SendGrid was sent, as they came. `has_activity`: whether the
    account at SendGrid has Email Activity; `recorded`: how many mails that has by now, None for all.
    """

    openai: list[Callable[[], Answer]] = field(default_factory=list)
    sendgrid: list[Callable[[Callable[[], Answer]], Answer]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    has_activity: bool = False
    recorded: int | None = None


class FaultyOpenAI(OpenAIServer):
    """The scripted model, behind a bad line."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        super().__init__()

    def _create(self, request: Request) -> Answer:
        return self._faults.openai.pop(0)() if self._faults.openai else super()._create(request)


class FaultySendGrid(SendGridServer):
    """The local SendGrid, behind a bad line. A fault is given the real call and may make it."""

    def __init__(self, mailboxes: Mailboxes, faults: Faults) -> None:
        self._faults = faults
        super().__init__(mailboxes, SUPPORT)

    def _find(self, request: Request) -> Answer:
        """Search by the one query that the app sends."""
        if not self._faults.has_activity:
            return super()._find(request)
        query = parse_qs(request.query)["query"][0]
        asked = re.fullmatch(r"\(unique_args\['(\w+)'\]=\"([^\"]*)\"\)", query)
        assert asked
        recorded = self._mailboxes.sent()[: self._faults.recorded]
        found = [mail for mail in recorded if mail.custom_args.get(asked[1]) == asked[2]]
        return Answer(200, {"messages": [{"msg_id": mail.mail_id} for mail in found]})

    def _send(self, request: Request) -> Answer:
        self._faults.asked.append(json.loads(request.body))
        if not self._faults.sendgrid:
            return super()._send(request)
        accept = super()._send
        return self._faults.sendgrid.pop(0)(lambda: accept(request))


@dataclass
class Harness:
    """A shop that a test writes to and looks at."""

    app: Flask
    live: Services
    mailboxes: Mailboxes
    faults: Faults
    inbound_key: WebhookKey
    events_key: WebhookKey
    environ: Mapping[str, str] = field(default_factory=dict)
    shopify: ShopifyServer | None = None  # it has the orders, if a test sets it
    order_server: OrderServer | None = None  # the same

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    def stock(self, *stocked: Order) -> None:
        """Put orders on the shop's books."""
        with self.live.database.transaction() as connection:
            for order in stocked:
                order_import.save(connection, order, self.live.now())

    def post_inbound(
        self,
        body: bytes,
        content_type: str = CONTENT_TYPE,
        headers: Mapping[str, str] | None = None,
    ) -> TestResponse:
        """Post a request as SendGrid would; signed unless `headers` say otherwise."""
        signed = sign(self.inbound_key, body) if headers is None else headers
        return self.client.post(
            "/webhooks/sendgrid/inbound", data=body, content_type=content_type, headers=dict(signed)
        )

    def write(self, text: str, **changes: Any) -> MailContent:
        """Write a mail to the shop, which must thank for it."""
        written = letter(text, **changes)
        response = self.post_inbound(build_body(written))
        assert response.status_code == 200, response.text
        return written

    def report(self, mail: SentMail, event: str = "delivered", **fields: str) -> TestResponse:
        """Post a delivery event of a mail, signed, as SendGrid would. `fields`: others of the event."""
        row = {"event": event, "email": mail.to, "timestamp": 1_790_000_000, **mail.custom_args}
        body = json.dumps([row | fields]).encode()
        signed = sign(self.events_key, body)
        return self.client.post("/webhooks/sendgrid/events", data=body, headers=signed)

    def at_rest(self) -> bool:
        """Whether everything that came in was dealt with and everything written was sent."""
        waiting = self.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'")
        sending = self.rows("SELECT 1 FROM outbound_mails WHERE status IN ('queued', 'sending')")
        return not waiting and not sending

    def mails_to(self, address: str) -> list[SentMail]:
        return self.mailboxes.sent(address)

    def wait_for_mails(self, address: str, count: int = 1, seconds: float = 30) -> list[SentMail]:
        """Wait until `address` has got `count` mails, and return all it has."""
        wait_until(
            lambda: len(self.mails_to(address)) >= count, seconds, f"{count} mails to {address}"
        )
        return self.mails_to(address)

    def refunds(self) -> tuple[Refund, ...]:
        with self.live.database.snapshot() as connection:
            return refunds.list_all(connection)

    def wait_for_refund(self, status: str, seconds: float = 30) -> Refund:
        """Wait until some refund is in this state, and return it."""
        wait_until(
            lambda: any(refund.status == status for refund in self.refunds()),
            seconds,
            f"a refund that is {status}",
        )
        return next(refund for refund in self.refunds() if refund.status == status)

    def log_in(self, email: str) -> FlaskClient:
        """Return a client in which one of the shop's people is logged in to the console, for an hour of the
        shop's clock."""
        secret = sessions.new_secret()
        now = services.current().now()
        with self.live.database.transaction() as connection:
            sessions.begin(connection, secret, email, now, now + timedelta(hours=1))
        client = self.client
        with client.session_transaction() as cookies:
            cookies[SESSION_KEY] = secret
        return client

    def rows(self, statement: str, **values: Any) -> list[Any]:
        """Look at rows with SQL, as an auditor would."""
        with self.live.database.snapshot() as connection:
            return list(connection.execute(sa.text(statement), values))


def sign(key: WebhookKey, body: bytes) -> dict[str, str]:
    """Sign at the time that it is in the shop; its clock is the database's, if there is one to ask."""
    try:
        now = services.current().now()
    except sa.exc.OperationalError:
        return key.sign(body)
    return key.sign(body, now)


def pass_time(shop: Harness, **delta: float) -> None:
    """Put the app's clock ahead of the shop's own by so much."""
    now = shop.live.now() + timedelta(**delta)
    services.bind(replace(services.current(), now=lambda: now))


def post_form(
    client: FlaskClient, path: str, page: str | None = None, **fields: Any
) -> TestResponse:
    """Post a form as a browser would: with the CSRF token of a page that has it (`path` by default)."""
    shown = client.get(page or path)
    found = re.search(r'name="csrf_token" value="([^"]+)"', shown.text)
    assert found is not None, f"{page or path} has no form: {shown.status}"
    return client.post(path, data={"csrf_token": found[1], **fields})


def code_in(mail: SentMail) -> str:
    """Return the code that a mail asks its reader to send back."""
    found = re.search(r"(?:the code|dem Code|le code|el código) ([0-9]{6})", mail.text)
    assert found is not None, mail.text
    return found[1]


def beside(call: Callable[[], T]) -> T:
    """Call DBOS from a thread of its own: it refuses to be called beside a browser's event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition. Raises AssertionError, saying for what, when it does not come."""
    deadline, pause = time.monotonic() + seconds, 0.01
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


@contextmanager
def _providers(faults: Faults, mailboxes: Mailboxes) -> Iterator[tuple[str, str]]:
    """Run the local OpenAI and SendGrid; give their URLs."""
    servers = FaultyOpenAI(faults), FaultySendGrid(mailboxes, faults)
    for server in servers:
        server.start()
    try:
        yield servers[0].url, servers[1].url
    finally:
        for server in servers:
            server.stop()


def shop_settings(
    database_url: str,
    openai_url: str,
    sendgrid_url: str,
    inbound_key: WebhookKey,
    events_key: WebhookKey,
) -> dict[str, str]:
    """Return the settings of a shop with the people of the cast and these providers."""
    return {
        "DATABASE_URL": database_url,
        "SECRET_KEY": "a key for tests only",
        "WORKER_ID": "test",
        "MAILAGENT_SETTLES": "at_once",
        "SUPPORT_ADDRESS": SUPPORT,
        "MANAGER_EMAILS": f"{MONA},{MAX}",
        "TEAM_EMAILS": TESS,
        "OPS_EMAILS": OLGA,
        "OPENAI_BASE_URL": f"{openai_url}/v1",
        "OPENAI_API_KEY": "test",
        "SENDGRID_BASE_URL": sendgrid_url,
        "SENDGRID_API_KEY": "test",
        "SENDGRID_INBOUND_PUBLIC_KEY": inbound_key.public_text(),
        "SENDGRID_EVENTS_PUBLIC_KEY": events_key.public_text(),
    }


@contextmanager
def open_shop(
    folder: Path,
    database_url: str,
    settings: Mapping[str, str] | None = None,
    mailboxes: Mailboxes | None = None,
) -> Iterator[Harness]:
    """Open a shop on a migrated database; its workflows do not run yet. `mailboxes`: those of a shop before."""
    mailboxes = mailboxes or Mailboxes()
    inbound_key, events_key = WebhookKey(folder / "inbound.pem"), WebhookKey(folder / "events.pem")
    faults = Faults()
    with _providers(faults, mailboxes) as (openai_url, sendgrid_url):
        environ = {
            **shop_settings(database_url, openai_url, sendgrid_url, inbound_key, events_key),
            "MAIL_OUTCOME_SECONDS": "2",
            **(settings or {}),
        }
        app = create_app(environ)
        live = services.current()
        try:
            yield Harness(app, live, mailboxes, faults, inbound_key, events_key, environ)
        finally:
            live.workflow_client.close()
            live.database.close()
            services.bind(None)


@contextmanager
def running(harness: Harness, first_pause_seconds: float = 5) -> Iterator[Harness]:
    """Run the workflows of a shop in this process; what failed is tried again after this pause at first."""
    polls = dict.fromkeys(workflows.QUEUE_POLL_SECONDS, QUEUE_POLL_SECONDS)
    # In a thread of its own: DBOS refuses to start beside an event loop, and a browser brings one.
    with (
        patch.object(workflows, "QUEUE_POLL_SECONDS", polls),
        patch.object(workflows, "SQLITE_POLL_SECONDS", QUEUE_POLL_SECONDS),
        patch.object(backoff_seconds, "__defaults__", (first_pause_seconds, 3600)),
        ThreadPoolExecutor(1) as thread,
    ):
        thread.submit(workflows.launch, engine_of(harness.app.config["MAILAGENT"])).result()
        try:
            yield harness
        finally:
            thread.submit(workflows.stop).result()
