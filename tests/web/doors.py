"""Every door of the fullest app, and a shop with something behind each: what the tests of the guards knock
at. A new route is found by itself; only a new argument of an address has to be told here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from flask.testing import FlaskClient
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.domain.mail.message import OutboundMail, OutboundStatus, Purpose
from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.domain.mail.saved_reply import SavedReply
from mailagent.domain.money import Money
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.remedies.remedy import Remedy, RemedyItem, RemedyKind, RemedyStatus
from mailagent.store import audit, ids, schema
from mailagent.store.console import sessions
from mailagent.store.mail import outbound, saved_replies
from mailagent.store.operations import comparisons, model_calls
from mailagent.store.operations.comparisons import Comparison, Differs, Side, Source
from mailagent.store.refunds import remedies
from mailagent.store.refunds.ledger import LedgerGateway
from mailagent.web.guard import Guard, guard_of
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, MONA, SUPPORT, TESS, a_photo, big_order
from tests.harness import Harness, open_shop
from tests.web.questions import record_refund

ORDERS_TOKEN = "a-token-of-the-shop-for-tests-only"
METRICS_TOKEN = "a-token-of-those-that-watch-for-tests"
FULL = {
    "ORDERS_API_TOKEN": ORDERS_TOKEN,
    "METRICS_TOKEN": METRICS_TOKEN,
    "STRIPE_WEBHOOK_SECRET": "whsec_for_tests_only",
    "ORDER_SOURCE": "shopify",
    "ORDER_SOURCE_URL": "http://127.0.0.1:9",
    "ORDER_SOURCE_TOKEN": "a-token-for-tests-only",
    "ORDER_SOURCE_WEBHOOK_SECRET": "a-secret-for-tests-only",
}
HTTPS = "https://agent.shop.example"

Values = Mapping[str, str]


@dataclass(frozen=True)
class Door:
    """One method of one route."""

    rule: Rule
    method: str
    guard: Guard
    permission: Permission | None

    @property
    def name(self) -> str:
        return f"{self.method} {self.rule.rule}"

    def path(self, values: Values) -> str:
        """Return the address with `values` in it. Raises KeyError for an argument that has none."""
        return re.sub(
            r"<(?:[^:<>]+:)?(\w+)>", lambda found: _quoted(values[found[1]]), self.rule.rule
        )


def _quoted(value: str) -> str:
    # A lone surrogate stands for a byte that is no UTF-8, as an attacker may send it.
    return quote(value, safe="@", errors="surrogateescape")


def doors(harness: Harness) -> list[Door]:
    """Return every door of a shop, files of the app itself included."""
    found = []
    for rule in harness.app.url_map.iter_rules():
        view = harness.app.view_functions[rule.endpoint]
        guard = guard_of(view)
        if rule.endpoint.rpartition(".")[2] == "static":
            guard = Guard.OPEN
        assert guard is not None, rule
        permission = getattr(view, "permission", None)
        methods = sorted((rule.methods or set()) - {"OPTIONS"})
        found += [Door(rule, method, guard, permission) for method in methods]
    return sorted(found, key=lambda door: door.name)


@contextmanager
def open_fullest(folder: Path, database_url: str, **settings: str) -> Iterator[Harness]:
    """Open a shop that has every route there can be."""
    providers = SendGridServer(Mailboxes(), SUPPORT)
    providers.start()
    try:
        with open_shop(
            folder, database_url, FULL | {"MAILAGENT_DEMO": providers.url} | settings
        ) as harness:
            yield harness
    finally:
        providers.stop()


@dataclass(frozen=True)
class Case:
    """One customer's matter, with an id for every kind of thing."""

    email: str
    order_id: str
    values: Values
    approval_id: str
    words: str

    def traces(self) -> tuple[str, ...]:
        """Return what a page would show if it showed anything of this."""
        return (self.email, self.order_id, self.words, "1,499")


def task_of(mail: Any, order_id: str, now: datetime) -> Remedy:
    """Return a task for the desk of an order."""
    return Remedy(
        remedy_id=f"remedy_{order_id}",
        kind=RemedyKind.REPLACEMENT,
        status=RemedyStatus.TASK,
        order_id=order_id,
        conversation_id=mail.conversation_id,
        mail_id=mail.mail_id,
        items=(RemedyItem("D1", "Standing desk", 1),),
        requested_at=now,
        due_at=now + timedelta(days=3),
        wish="the white one",
        reason="damaged",
        policy_reasons=("above_limit",),
    )


def furnish(harness: Harness, email: str = ADA, order_id: str = "W2001") -> Case:
    """Let a customer's refund wait for a manager, with a file, a draft, and a login link under way."""
    customer = {"email": email, "name": "Somebody"}
    harness.stock(big_order(order_id, customer=customer))
    words = f"The words of {order_id}"
    assert harness.post_inbound(_mail(email, words)).status_code == 200
    (mail,) = harness.rows(
        "SELECT mail_id, conversation_id, run_id FROM inbound_mails WHERE from_address = :email",
        email=email,
    )
    now, secret = harness.live.now(), sessions.new_secret()
    approval_id = record_refund(harness, mail, order_id, f"refund_{order_id}")
    amount = Money(149900, "USD")
    request = RefundRequest(f"s_{order_id}", f"refund_{order_id}", order_id, "pay_1", amount)
    LedgerGateway(harness.live.database, harness.live.now).refund(request)
    with harness.live.database.transaction() as connection:
        connection.execute(schema.drafts.insert().values(_draft(f"draft_{order_id}", mail, now)))
        details = {"runs": [mail.run_id]}
        audit.record(connection, now, TESS, "runs replayed together", f"replay_{order_id}", details)
        remedies.record(connection, task_of(mail, order_id, now), f"key_{order_id}")
        reply = SavedReply(f"reply_{order_id}", f"About {order_id}", "Hello.", TESS, now)
        saved_replies.save(connection, reply)
        outbound.record(connection, _answer(email, order_id, mail), f"person:{order_id}", now)
        outbound.set_status(connection, f"outbound_{order_id}", OutboundStatus.SENT, now)
        sessions.record_link(connection, secret, TESS, "/ops", now, now + timedelta(minutes=15))
    values = {
        "token": token_of(harness, approval_id),
        "secret": secret,
        "mail_id": mail.mail_id,
        "number": "0",
        "outbound_id": f"outbound_{order_id}",
        "conversation_id": mail.conversation_id,
        "refund_id": f"refund_{order_id}",
        "draft_id": f"draft_{order_id}",
        "settlement": f"s_{order_id}",
        "vote": harness.live.links.sign_votes(mail.mail_id)["no"].rpartition("/")[2],
        "saved_reply_id": f"reply_{order_id}",
        "remedy_id": f"remedy_{order_id}",
        "return_id": f"remedy_{order_id}",
        "run_id": mail.run_id,
        "replay_id": f"replay_{order_id}",
        "email": email,
        "order_id": order_id,
        "code": "NO-SUCH-CODE",
        "filename": "mailagent.css",
    }
    return Case(email, order_id, values, approval_id, words)


def token_of(harness: Harness, approval_id: str, manager: str = MONA) -> str:
    return harness.live.links.sign_approval(approval_id, manager).rpartition("/")[2]


def _mail(email: str, words: str) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = email, SUPPORT, "My desk"
    message["Message-ID"] = f"<first.{email}>"
    message.set_content(words)
    message.add_attachment(a_photo(), maintype="image", subtype="jpeg", filename="desk.jpg")
    domain = email.partition("@")[2]
    return raw_request(message.as_bytes(), dkim=f"{{@{domain} : pass}}", envelope_from=email)


def _answer(email: str, order_id: str, mail: Any) -> OutboundMail:
    """Return an answer of the team with a file."""
    return OutboundMail(
        outbound_id=f"outbound_{order_id}",
        purpose=Purpose.TEAM_REPLY,
        to_address=email,
        from_address=SUPPORT,
        subject="My desk",
        text="Here is the manual.",
        html=None,
        message_id=f"{order_id}@shop.example",
        conversation_id=mail.conversation_id,
        files=(OutgoingFile("manual.pdf", b"%PDF-1.7"),),
    )


def _draft(draft_id: str, mail: Any, now: Any) -> dict[str, Any]:
    return {
        "draft_id": draft_id,
        "conversation_id": mail.conversation_id,
        "mail_ids": [mail.mail_id],
        "topics": [],
        "text": "We will see to it.",
        "state": "waiting",
        "created_at": now,
    }


def two_cases(harness: Harness) -> tuple[Case, Case]:
    """Return Ada's and Grace's matters."""
    return furnish(harness), furnish(harness, GRACE, "W3001")


Books = dict[str, list[str]]


def books(harness: Harness) -> Books:
    """Return every row of every table, those of DBOS too."""
    engine = harness.live.database.engine
    schemas = [None, "dbos"] if engine.dialect.name == "postgresql" else [None]
    names = [(name, each) for each in schemas for name in sa.inspect(engine).get_table_names(each)]
    with harness.live.database.snapshot() as connection:
        return {
            name: sorted(repr(tuple(row)) for row in connection.execute(_all_of(name, each)))
            for name, each in names
        }


def _all_of(name: str, schema_name: str | None) -> sa.Select[Any]:
    return sa.select(sa.text("*")).select_from(sa.table(name, schema=schema_name))


def changed(before: Books, after: Books) -> list[str]:
    """Return the names of the tables that are not as they were."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def visit(
    client: FlaskClient, path: str, method: str = "GET", **more: Any
) -> tuple[TestResponse, str]:
    """Return an answer and its text; of a stream that never ends, only the head is read."""
    answer = client.open(path, method=method, buffered=False, **more)
    endless = answer.mimetype == "text/event-stream"
    text = "" if endless else answer.get_data().decode("utf-8", "replace")
    answer.close()
    return answer, text


def csrf_token(client: FlaskClient) -> str:
    """Return a token that is good for every form in this browser."""
    found = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/ops/login").text)
    assert found is not None
    return found[1]


ANSWER = {"kind": "done", "model": "small", "usage": {"input": 100, "cached": 80, "output": 10}}


def record_comparison(shop: Harness, words: str) -> None:
    """Record what a shadow and a backtest would have done about a mail, in somebody's words."""
    mail = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails ORDER BY mail_id")[0]
    side = Side((f"propose_refund {words} -> approved",), (words, "just_answer"))
    with shop.live.database.transaction() as connection:
        for source in Source:
            made = Comparison(
                source=source,
                mail_id=mail.mail_id,
                conversation_id=mail.conversation_id,
                at=shop.live.now(),
                model=words,
                differs=Differs.ACTS,
                draft="edited",
                past=side,
                now=side,
                error="",
                tokens=10,
                cost_micro_usd=20,
                milliseconds=30,
            )
            comparisons.record(connection, made)


def record_call(shop: Harness, age: timedelta) -> None:
    furnished = shop.rows("SELECT conversation_id FROM conversations")
    with shop.live.database.transaction() as connection:
        model_calls.record(
            connection,
            ids.new_number(),
            furnished[0].conversation_id,
            None,
            ANSWER,
            shop.live.now() - age,
        )
