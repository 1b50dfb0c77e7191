"""The world of one sample: the real app over HTTP on a database of its own, with SendGrid, the model's server
and the gateway played here, a clock that starts at one moment, and managers who do what the task says.

One world at a time in a process: the workflow engine is the process's own.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from werkzeug.serving import WSGIRequestHandler, make_server

from mailagent import remedies as ending
from mailagent import services, settling
from mailagent.adapters.order_files.files import Reading, parse_orders
from mailagent.app import ROOT, create_app
from mailagent.cli.worker import engine_of
from mailagent.demo.fakes.http_server import LocalServer
from mailagent.demo.fakes.mailboxes import AttachedFile, Mailboxes, MailContent, SentMail
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.refunds.settlement import Outcome, SettlementState
from mailagent.domain.remedies.remedy import OPEN
from mailagent.evals.task import SHOP, Task, Turn
from mailagent.store import schema
from mailagent.store.operations import incidents
from mailagent.store.refunds import order_import, remedies, settlements
from mailagent.workflows import launch

# The time at which every sample begins. The orders of the suites fit it.
START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SUPPORT, MANAGERS, TEAM = "support@shop.example", ("mona@shop.example",), "tess@shop.example"
QUIET_SECONDS = 0.05
RUNS_READ_EVERY_SECONDS = 1.0


class NotQuiet(Exception):
    """The app still had work to do at the deadline, or one of its runs failed."""


class NeedsOperator(NotQuiet):
    """No sample can be played until an operator fixes something, such as the model's key."""


@dataclass
class World:
    """A shop that the customer of a task writes to."""

    task: Task
    url: str
    mailboxes: Mailboxes
    key: WebhookKey
    http: httpx2.Client
    managers: list[str]
    people: list[str]
    letters: list[MailContent] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _decided: set[str] = field(default_factory=set)

    def write(self, turn: Turn) -> None:
        """Post a mail of the customer to the app. Raises RuntimeError if the app does not take it."""
        letter = self._letter(turn)
        self.letters.append(letter)
        body = build_body(letter)
        headers = {"Content-Type": CONTENT_TYPE, **self.key.sign(body, services.current().now())}
        answer = self.http.post("/webhooks/sendgrid/inbound", content=body, headers=headers)
        if answer.status_code != 200:
            raise RuntimeError(
                f"the app answered {answer.status_code} to a mail: {answer.text[:200]}"
            )

    def _letter(self, turn: Turn) -> MailContent:
        number = len(self.letters) + 1
        sender = turn.sender or self.task.sender
        answered = None if turn.new_thread else next(iter(reversed(self.mails_to(sender))), None)
        subject = turn.subject or (f"Re: {answered.subject}" if answered else "shop.example")
        return MailContent(
            mail_number=f"m{number}",
            from_name=self.task.name if sender == self.task.sender else "",
            from_address=sender,
            to=(answered.reply_to or SUPPORT) if answered else SUPPORT,
            subject=subject,
            text=turn.mail,
            html=turn.html,
            message_id=f"m{number}@mail.{sender.rpartition('@')[2]}",
            in_reply_to=answered.message_id if answered else None,
            references=answered.references if answered else "",
            aligned=turn.proven,
            sent_at=services.current().now().isoformat(timespec="seconds"),
            files=tuple(AttachedFile(name, _kind(name), _JPEG) for name in turn.files),
        )

    def mails_to(self, address: str) -> list[SentMail]:
        return self.mailboxes.sent(address)

    def new_mails(self, address: str) -> list[SentMail]:
        """Return the mails to a mailbox since the last call."""
        new = [mail for mail in self.mails_to(address) if mail.mail_id not in self._seen]
        self._seen.update(mail.mail_id for mail in new)
        return new

    def run_until_quiet(self, seconds: float) -> None:
        """Wait until the app has nothing left to do, while the shop's people do what the task says. Raises
        NotQuiet after `seconds`, counted by looks: on a busy machine the app gets no more time than they do."""
        looks = iter(range(round(seconds / QUIET_SECONDS)))
        while True:
            self._rest(looks)
            requests = [mail for each in MANAGERS for mail in self.mails_to(each)]
            waiting = [mail for mail in requests if mail.mail_id not in self._decided]
            for mail in waiting:
                self._decided.add(mail.mail_id)
                self._decide(mail)
            if not waiting and not self._do_tasks():
                return

    def _do_tasks(self) -> bool:
        """Do the team's next task, take a return or give store credit; return whether there was any."""
        with services.current().database.transaction() as connection:
            tasks = [each.remedy_id for each in remedies.list_open(connection)]
            credits = [each.idempotency_key for each in settlements.list_open(connection)]
            waiting = [each for each in (*tasks, *credits) if each not in self._decided]
            if not waiting or not self.people:
                return False
            self._decided.add(waiting[0])
            doing = self.people.pop(0)
            if doing == "done" and waiting[0] in credits:
                given = Outcome(waiting[0], SettlementState.SETTLED, "GIFT-1234")
                settling.settle(connection, given, MANAGERS[0])
            elif doing != "ignore":
                note = "Sold out." if doing == "not_possible" else None
                ending.finish(connection, waiting[0], MANAGERS[0], doing == "done", note)
        return True

    def _rest(self, looks: Iterator[int]) -> None:
        read_runs_at = time.monotonic() + RUNS_READ_EVERY_SECONDS
        while not is_at_rest():
            if next(looks, None) is None:
                raise NotQuiet("the app did not come to rest in time")
            if time.monotonic() > read_runs_at:
                raise_failed_run()
                read_runs_at = time.monotonic() + RUNS_READ_EVERY_SECONDS
            time.sleep(QUIET_SECONDS)

    def _decide(self, request: SentMail) -> None:
        """Follow the link of an approval request, and press a button as a browser would."""
        found = re.search(re.escape(self.url) + r"(/approvals/\S+)", request.text)
        doing = self.managers.pop(0) if found and self.managers else "ignore"
        if found is None or doing == "ignore":
            return
        decision, _, amount = doing.partition(" ")
        page = self.http.get(found[1])
        form = dict(_HIDDEN.findall(page.text)) | {"decision": decision}
        answer = self.http.post(found[1], data=form | ({"amount": amount} if amount else {}))
        if answer.status_code >= 400:
            raise RuntimeError(f"the app answered {answer.status_code} to a decision")


# The hidden fields that a browser sends: the CSRF token, and what the page showed of the order.
_HIDDEN = re.compile(
    r'type="hidden" name="(csrf_token|first_decision|order_[a-z]+|refunded_elsewhere)" value="([^"]*)"'
)


def _kind(name: str) -> str:
    return "image/jpeg" if name.lower().endswith((".jpg", ".jpeg")) else "application/pdf"


# The app counts it as a photo by its type and size.
_JPEG = bytes.fromhex("ffd8ffe000104a464946") + bytes(30_000)


def _held_up() -> sa.Select[str | None]:
    """Return the refunds that wait for goods, which the customer was asked for, or for a cancellation."""
    waiting = schema.remedies.c
    asked = sa.select(schema.outbound_mails.c.dedup_key)
    return sa.select(waiting.refund_id).where(
        waiting.refund_id.is_not(None),
        waiting.status.in_(OPEN),
        sa.or_(waiting.kind != "return", ("return:" + waiting.remedy_id).in_(asked)),
    )


def is_at_rest() -> bool:
    """Whether every mail was dealt with, every answer sent, and every approved refund brought to its end."""
    inbound, outbound, refunds = (schema.inbound_mails.c, schema.outbound_mails.c, schema.refunds.c)
    asked = sa.select(schema.approval_requests.c.approval_id)
    entries = schema.ledger_settlements.c
    # Money is paid at once. What is open is store credit, which people give.
    to_give = sa.select(entries.refund_id).where(entries.state == "open")
    waiting = sa.select(schema.approvals.c.approval_id).join(schema.refunds)
    unasked = waiting.where(
        refunds.status == "awaiting_approval", schema.approvals.c.approval_id.not_in(asked)
    )
    queries = (
        sa.select(inbound.mail_id).where(
            inbound.status == "unanswered", inbound.draft_id.is_(None)
        ),
        sa.select(outbound.outbound_id).where(outbound.status.in_(["queued", "sending"])),
        sa.select(refunds.refund_id).where(
            refunds.status == "approved", refunds.refund_id.not_in(_held_up().union(to_give))
        ),
        unasked,
        # A receipt, or the news of a rejection, is yet to be written.
        sa.select(refunds.refund_id).where(
            refunds.status.in_(["paid", "rejected"]),
            refunds.receipt_id.is_(None),
            refunds.refund_id.not_in(
                sa.select(outbound.refund_id).where(
                    outbound.refund_id.is_not(None),
                    outbound.purpose.in_(["receipt", "refund_outcome"]),
                )
            ),
        ),
    )
    with services.current().database.snapshot() as connection:
        return not any(connection.execute(query.limit(1)).first() for query in queries)


def raise_failed_run() -> None:
    """Raise NotQuiet if a run has failed, because waiting would not help; NeedsOperator if the model refuses
    every call."""
    failed = services.current().workflow_client.runs.list_runs("ERROR", limit=1)
    if not failed:
        return
    with services.current().database.snapshot() as connection:
        incident = incidents.find_open(connection, IncidentKind.OPENAI)
    raise (NeedsOperator if incident else NotQuiet)(failed[0].why)


class _Quiet(WSGIRequestHandler):
    def log(self, *_arguments: object) -> None:
        """Log nothing: the table is what people read."""


# --- opening ----------------------------------------------------------------------------------------


def migrate(url: str) -> None:
    """Make the tables of a new database."""
    config = Config(toml_file=str(ROOT / "pyproject.toml"))
    config.cmd_opts = type("Options", (), {"x": [f"url={url}"]})()
    command.upgrade(config, "head")


def make_template(folder: Path) -> Path:
    """Return a SQLite file that the database of each sample is copied from: migrated, with the orders of the
    suites. The shop was open once: DBOS polls queues that it knows from the start, and new ones a second
    later."""
    migrate(f"sqlite:///{folder / 'empty.db'}")
    (folder / "shop").mkdir()
    anyone = Task(id="", suite="", sender=TEAM, turns=())
    with open_world(folder / "shop", folder / "empty.db", anyone, {}):
        _stock((SHOP / "orders.jsonl").read_bytes())
    path = folder / "shop" / "shop.db"
    with sa.create_engine(f"sqlite:///{path}").connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@contextmanager
def open_world(
    folder: Path,
    template: Path,
    task: Task,
    model: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
) -> Iterator[World]:
    """Open the shop of a task in an empty folder, and run its workflows. `model`: the settings OPENAI_…"""
    shutil.copy(template, folder / "shop.db")
    key, mailboxes = WebhookKey(folder / "key.pem"), Mailboxes()
    with ExitStack() as stack:
        sendgrid = stack.enter_context(served(SendGridServer(mailboxes, SUPPORT)))
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        environ = {**_settings(folder, url, sendgrid.url, key, task), **model, **(settings or {})}
        environ["REFUND_POLICY"] = str(_policy(folder, Path(environ["REFUND_POLICY"]), task))
        app = create_app(environ)
        stack.callback(_close)
        began = time.monotonic()
        services.bind(
            replace(
                services.current(), now=lambda: START + timedelta(seconds=time.monotonic() - began)
            )
        )
        _stock(json.dumps(task.orders).encode())
        server = make_server(
            "127.0.0.1", 0, app, True, request_handler=_Quiet, fd=listening.fileno()
        )
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        launch.launch(engine_of(app.config["MAILAGENT"]))
        stack.callback(launch.stop)
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=30, trust_env=False))
        yield World(task, url, mailboxes, key, http, list(task.managers), list(task.people))


@contextmanager
def served(server: LocalServer) -> Iterator[LocalServer]:
    """Run a local provider."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _settings(
    folder: Path, url: str, sendgrid_url: str, key: WebhookKey, task: Task
) -> dict[str, str]:
    return {
        "DATABASE_URL": f"sqlite:///{folder / 'shop.db'}",
        "PUBLIC_URL": url,
        "SECRET_KEY": "of a world that ends with its sample",
        "WORKER_ID": "evals",
        "MAILAGENT_SETTLES": "at_once",
        "SUPPORT_ADDRESS": SUPPORT,
        "MANAGER_EMAILS": ",".join(MANAGERS),
        "TEAM_EMAILS": TEAM,
        "OPS_EMAILS": "olga@shop.example",
        "SENDGRID_BASE_URL": sendgrid_url,
        "SENDGRID_API_KEY": "evals",
        "SENDGRID_INBOUND_PUBLIC_KEY": key.public_text(),
        "SENDGRID_EVENTS_PUBLIC_KEY": key.public_text(),
        "REFUND_POLICY": str(SHOP / "policy.toml"),
        "SHOP_KNOWLEDGE": str(_knowledge(folder, task)),
    }


def _policy(folder: Path, base: Path, task: Task) -> Path:
    """Return the policy, with the tables that the task adds and the policy has not."""
    text = base.read_text("utf-8")
    known = tomllib.loads(text)
    tables = (SHOP / f"{name}.toml" for name in task.policy if name not in known)
    written = folder / "policy.toml"
    written.write_text("\n".join([text, *(each.read_text("utf-8") for each in tables)]), "utf-8")
    return written


def _knowledge(folder: Path, task: Task) -> Path:
    """Return the shop's knowledge, with the passages that the task adds."""
    written = folder / "knowledge"
    shutil.copytree(SHOP / "knowledge", written)
    for name, text in task.passages.items():
        (written / f"{name}.md").write_text(text, "utf-8")
    return written


def _stock(orders: bytes) -> None:
    live = services.current()
    found = parse_orders(orders, Reading(START))
    with live.database.transaction() as connection:
        for _line, order in found.orders:
            order_import.save(connection, order, live.now())


def _close() -> None:
    live = services.current()
    live.workflow_client.close()
    live.database.close()
    services.bind(None)
