"""One app on one fresh database, in a process that can be killed, with providers that outlive it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import sqlalchemy as sa

from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.fakes.mailboxes import CustomerMailState, Mailboxes, MailContent, SentMail
from mailagent.demo.fakes.openai import OpenAIServer, answer_to, tool_results
from mailagent.demo.fakes.webhooks import WebhookKey, WebhookSender
from mailagent.demo.scripted_model import read_request
from mailagent.domain.refunds.order import Order
from mailagent.store.database import Database, open_database
from mailagent.store.refunds import order_import
from tests import order_server, stripe_server
from tests.cast import ADA, GRACE, MAX, MONA, OLGA, TESS, big_order, order
from tests.harness import Faults, FaultySendGrid, letter, shop_settings, wait_until
from tests.order_server import OrderServer
from tests.platforms import shopify_server
from tests.platforms.shopify_server import ShopifyServer
from tests.ports import choose_port
from tests.processes import base_environment
from tests.programs.crash_sweep.starting import App
from tests.stripe_server import StripeServer

if TYPE_CHECKING:
    from tests.programs.crash_sweep.story import Script, Story

# Long, for machines that do much else; whether the sweep had to help is seen in the rows.
PATIENCE_SECONDS = 180.0
SECRET_KEY = "a key for tests only"
STRIPE_SECRET = "whsec_swept"
ORDERS_TOKEN = "a-token-of-the-shop-for-sweeps-only"
PEOPLE = (ADA, GRACE, MONA, MAX, TESS, OLGA)
QUESTION = "Where are my orders? I forgot the numbers."


class ScriptedOpenAI(OpenAIServer):
    """The demo's model, which says something else where the story wants it to."""

    def __init__(self, script: Script | None) -> None:
        self._script = script
        self.answers = threading.Event()
        self.answers.set()
        super().__init__()

    def _create(self, request: Request) -> Answer:
        self.answers.wait(PATIENCE_SECONDS)
        turn = self._other_turn(json.loads(request.body)) if self._script else None
        if turn is None:
            return super()._create(request)
        return Answer(200, answer_to(json.loads(request.body), turn, request.body))

    def _other_turn(self, body: Mapping[str, Any]) -> Any:
        assert self._script is not None
        items = body["input"]
        case = next(item["content"] for item in items if item.get("role") == "user")
        corrected = len(items) > 1 and items[-1].get("role") in ("user", "developer", "system")
        return self._script(read_request(case), tool_results(items), corrected)


class SweptShop:
    """A shop that a story is played in."""

    def __init__(self, story: Story, folder: Path, database_url: str) -> None:
        self._story, self._folder = story, folder
        self._database_url = database_url
        self.database: Database = open_database(database_url, pool_size=2)
        self.dbos = "" if self.database.engine.dialect.name == "sqlite" else "dbos."
        self.mailboxes = Mailboxes()
        self.faults = Faults()
        self.openai = ScriptedOpenAI(story.script)
        self._sendgrid = FaultySendGrid(self.mailboxes, self.faults)
        self.stripe = StripeServer({"pi_card": 4999}) if story.stripe else None
        self.order_server = OrderServer() if story.order_server else None
        self.shopify = ShopifyServer() if story.shopify else None
        self._port = choose_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._inbound = WebhookKey(folder / "inbound.pem")
        self.events_key = WebhookKey(folder / "events.pem")
        self._webhook_sender = WebhookSender(
            self.mailboxes, self.url, self._inbound, self.events_key
        )
        self.marker, self.trace, self.log = folder / "crashed", folder / "trace", folder / "app.log"
        self._app: App | None = None
        self.traded = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have the providers at work, and end the app in the end."""
        servers = (self.openai, self._sendgrid, self._webhook_sender)
        if self.order_server:
            self.order_server.start()
        for server in servers:
            server.start()
        try:
            self._stock()
            yield
        finally:
            self.stop()
            for server in servers:
                server.stop()
            if self.stripe:
                self.stripe.stop()
            if self.order_server:
                self.order_server.stop()
            if self.shopify:
                self.shopify.stop()
            self.database.close()

    def _stock(self) -> None:
        paid = {"payment_id": "pi_card", "method": "card", "amount": "49.99"}
        kettle = order(payments=[paid]) if self.stripe else order()
        lamp = order("W1008", status="pending", delivered_at=None)
        self.sell(kettle, big_order(), lamp)

    def sell(self, *sold: Order) -> None:
        """Put orders on the books, or change them."""
        system = self.order_server or self.shopify
        if system:
            system.stock(*sold)
            return
        with self.database.transaction() as connection:
            for each in sold:
                order_import.save(connection, each, each.placed_at)

    def start(self, **changes: str) -> None:
        """Start the app with some settings changed."""
        self._app = App(self._port, self._environment() | changes, self.log)

    def stop(self) -> None:
        """Kill the app, if one is there."""
        if self._app is not None:
            self._app.kill()
            self._app = None

    def _environment(self) -> dict[str, str]:
        policy = self._folder / "policy.toml"
        policy.write_text(self._story.policy)
        stripe = {
            "PAYMENT_GATEWAY": "stripe",
            "STRIPE_API_KEY": "sk_test_17",
            "STRIPE_WEBHOOK_SECRET": STRIPE_SECRET,
            "STRIPE_API_BASE": self.stripe.url if self.stripe else "",
        }
        source = self.order_server
        shopify = {
            "PAYMENT_GATEWAY": "shopify",
            "ORDER_SOURCE": "shopify",
            "ORDER_SOURCE_URL": self.shopify.url if self.shopify else "",
            "ORDER_SOURCE_TOKEN": shopify_server.TOKEN,
        }
        return {
            **base_environment(),
            **shop_settings(
                self._database_url,
                self.openai.url,
                self._sendgrid.url,
                self._inbound,
                self.events_key,
            ),
            "WORKER_ID": "sweep",
            "PUBLIC_URL": self.url,
            "REFUND_POLICY": str(policy),
            "MAIL_OUTCOME_SECONDS": "12",  # longer than a busy machine takes to send the next mail
            **(stripe if self.stripe else {}),
            **(order_server.source_settings(source) if source else {}),
            **(shopify if self.shopify else {}),
            **self._story.settings,
        }

    # --- what people do and see -------------------------------------------------------------------

    def write(self, text: str, **changes: Any) -> MailContent:
        """Write a mail to the shop, as Ada unless `changes` say otherwise; it arrives by and by."""
        written = letter(text, **changes)
        self.mailboxes.queue_mail(written)
        return written

    def mails_to(self, address: str) -> list[SentMail]:
        return self.mailboxes.sent(address)

    def wait_for_mails(self, address: str, count: int = 1) -> list[SentMail]:
        """Wait until somebody has got so many mails, and return all that they have."""
        self.wait(lambda: len(self.mails_to(address)) >= count, f"{count} mails to {address}")
        return self.mails_to(address)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something. Raises AssertionError, saying for what, when it does not come."""

        def has_come() -> bool:
            self._go_on_trading()
            return condition()

        wait_until(has_come, PATIENCE_SECONDS, what)

    def _go_on_trading(self) -> None:
        """Let somebody else write after the crash: that later mail is told of, and one that was lost is
        not, shows that it was lost."""
        if self.traded or not self.marker.exists():
            return
        self.traded = True
        self.write(QUESTION, from_address=GRACE, from_name="Grace")

    def post_event(self, mail: SentMail, event: str) -> bool:
        """Report what became of a mail, as SendGrid would; return whether it was thanked for."""
        moment = int(datetime.now(UTC).timestamp())
        row = {"event": event, "email": mail.to, "timestamp": moment, **mail.custom_args}
        body = json.dumps([{**row, "sg_event_id": f"{event}-{mail.mail_id}"}]).encode()
        return self._post("/webhooks/sendgrid/events", body, self.events_key.sign(body))

    def post_stripe_event(self, kind: str) -> bool:
        """Tell of the newest refund, as Stripe would; return whether it was thanked for."""
        assert self.stripe is not None
        body = stripe_server.event(kind, stripe_server.shown(self.stripe.refunds[-1]), "evt_swept")
        headers = {"Stripe-Signature": stripe_server.sign(body, STRIPE_SECRET)}
        return self._post("/webhooks/stripe", body, headers)

    def say_received(self, refund_id: str) -> bool:
        """Say that the goods of a refund are back, as the warehouse does; return whether it was thanked for."""
        headers = {"Authorization": f"Bearer {ORDERS_TOKEN}"}
        return self._post(f"/api/returns/{refund_id}/received", b"", headers)

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bool:
        headers = {"Content-Type": "application/json", **headers}
        try:
            with httpx2.Client(timeout=10, trust_env=False) as client:
                answer = client.post(f"{self.url}{path}", content=body, headers=headers)
        except httpx2.HTTPError:
            return False
        return answer.is_success

    # --- what is on record ------------------------------------------------------------------------

    def rows(self, statement: str, **values: Any) -> list[Any]:
        """Look at rows with SQL, as an auditor would."""
        with self.database.snapshot() as connection:
            return list(connection.execute(sa.text(statement), values))

    def scalar(self, statement: str) -> int:
        return int(self.rows(statement)[0][0] or 0)

    def change(self, statement: str, **values: Any) -> int:
        """Change rows behind the app's back; return how many."""
        with self.database.transaction() as connection:
            return connection.execute(sa.text(statement), values).rowcount

    def is_quiet(self) -> bool:
        """Say whether every letter was taken, every run has ended, and every mail is sent and told of."""
        if any(each.state is not CustomerMailState.DELIVERED for each in self.mailboxes.letters()):
            return False
        waiting = self.rows(
            f"SELECT 1 FROM {self.dbos}workflow_status"
            " WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
            " UNION ALL SELECT 1 FROM outbound_mails WHERE status IN ('queued', 'sending')"
            " UNION ALL SELECT 1 FROM inbound_mails WHERE status IN ('unanswered', 'throttled')"
        )
        # Looked at last: until the runs have ended, there may be one more.
        return not waiting and all(mail.reported for mail in self.mailboxes.sent())

    def wait_for_quiet(self) -> None:
        self.wait(self.is_quiet, "everything to come to its end")
