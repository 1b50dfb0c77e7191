"""Everybody who writes: customers, managers who click twice, the team, and SendGrid's two webhooks."""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx2

from mailagent.demo.fakes.mailboxes import MailContent, SentMail
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, WebhookSender, build_body
from mailagent.demo.story import find_csrf_token, find_link
from mailagent.store.database import Database
from mailagent.store.refunds import order_import
from tests.cast import MAX, MONA, TESS, order
from tests.harness import letter
from tests.processes import Web
from tests.programs.soak.providers import Providers
from tests.programs.soak.story import NEVER_MIND, SHARES, WORDS, Click, Kind, Story, Written

GIVE_UP_SECONDS = 300.0
PAUSE_SECONDS = 0.5

DESK, KETTLE = ("Standing desk", 1499_00), ("Kettle", 49_99)
_CUSTOMER = re.compile(r"ada\.(\d+)@example\.com")


@dataclass
class Activity:
    """How often what was done. `posted_at`, by Message-ID: when it was first tried."""

    mails: Counter[str] = field(default_factory=Counter)
    redelivered: int = 0
    duplicates: int = 0
    clicks: int = 0
    posted_at: dict[str, float] = field(default_factory=dict)


class People:
    """Threads that write until told to stop; managers and the team go on for as long as anybody waits."""

    def __init__(
        self, folder: Path, webs: list[Web], providers: Providers, database: Database, seed: int
    ) -> None:
        self.inbound, self.events = (
            WebhookKey(folder / "inbound.pem"), WebhookKey(folder / "events.pem"),
        )  # fmt: skip
        self.counter, self.story = Activity(), Story()
        self._webs, self._providers, self._database = webs, providers, database
        self._chance = random.Random(seed)
        self._writing, self._alive = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._seen: set[str] = set()
        self._withdrawn: dict[str, bool] = {}  # whether the customer has said so, by order
        self._first = list(SHARES)  # one of each before chance decides
        self._under_way = 0
        self._number = 10_000

    def start(self, mails_per_second: float) -> None:
        self._writing.set()
        self._alive.set()
        postmen = [
            WebhookSender(
                self._providers.mailboxes, f"http://127.0.0.1:{web.port}", self.inbound, self.events
            )
            for web in self._webs
        ]
        self._run(partial(self._write_on, 1 / mails_per_second))
        self._run(partial(self._every, 0.3, self._read_mail))
        self._run(partial(self._every, 0.5, lambda: random.choice(postmen).deliver_events()))

    def stop_writing(self) -> None:
        self._writing.clear()

    def stop(self) -> None:
        self._alive.clear()
        for thread in self._threads:
            thread.join(30)

    @property
    def at_rest(self) -> bool:
        return self._under_way == 0

    def _run(self, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _every(self, seconds: float, work: Callable[[], object]) -> None:
        while self._alive.is_set():
            # A web process that died just now; the next time another is asked.
            with contextlib.suppress(OSError, http.client.HTTPException):
                work()
            time.sleep(seconds)

    def _write_on(self, pause_seconds: float) -> None:
        while self._writing.is_set():
            chosen = self._chance.choices(list(SHARES), list(SHARES.values()))[0]
            self._write(self._first.pop() if self._first else chosen)
            time.sleep(pause_seconds * self._chance.uniform(0.5, 1.5))

    def _write(self, kind: Kind) -> None:
        self._number += 1
        order_id, address = f"W{self._number}", f"ada.{self._number}@example.com"
        if kind is Kind.WITHDRAWAL:
            self._withdrawn[order_id] = False
        name, price = DESK if kind in (Kind.BIG, Kind.WITHDRAWAL) else KETTLE
        mail = letter(WORDS[kind].format(order_id), from_address=address)
        written = Written(mail.message_id, kind, address, address, order_id, price)
        self._post(written, mail, before=partial(self._stock, written, name))

    def _stock(self, written: Written, name: str) -> None:
        payment_id = f"pi_{written.order_id}"
        price = f"{written.price_minor / 100:.2f}"
        self._providers.stripe.payments[payment_id] = written.price_minor
        bought = order(
            written.order_id,
            customer={"email": written.sender, "name": "Ada Example"},
            items=[{"item_id": "K1", "name": name, "quantity": 1, "unit_price": price}],
            payments=[{"payment_id": payment_id, "method": "card", "amount": price}],
        )
        with self._database.transaction() as connection:
            order_import.save(connection, bought, datetime.now(UTC) - timedelta(hours=1))

    def _post(
        self, written: Written, mail: MailContent, before: Callable[[], None] = lambda: None
    ) -> None:
        self.story.written.append(written)
        self.counter.mails[written.kind.value] += 1
        self.counter.posted_at[written.message_id] = time.time()
        with self._lock:
            self._under_way += 1
        self._run(partial(self._deliver, mail, before, self._chance.random() < 0.1))

    def _deliver(self, mail: MailContent, before: Callable[[], None], twice: bool) -> None:
        """Post as SendGrid does: again after 5xx and no answer, never again after anything but 200; now and
        then once too often."""
        try:
            _persist(before)
            body = build_body(mail)
            deadline = time.monotonic() + GIVE_UP_SECONDS
            status = self._try(body)
            while (status == 0 or status >= 500) and time.monotonic() < deadline:
                self.counter.redelivered += 1
                time.sleep(PAUSE_SECONDS)
                status = self._try(body)
            self._take_down(mail.message_id, status)
            if twice:
                self.counter.duplicates += 1
                self._take_down(mail.message_id, self._try(body))
        finally:
            with self._lock:
                self._under_way -= 1

    def _take_down(self, message_id: str, status: int) -> None:
        if status == 200:
            self.story.accepted.add(message_id)
        elif 0 < status < 500:
            self.story.refused[message_id] = status

    def _try(self, body: bytes) -> int:
        web = random.choice(self._webs)
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
        try:
            headers = {"Content-Type": CONTENT_TYPE, **self.inbound.sign(body)}
            connection.request("POST", "/webhooks/sendgrid/inbound", body, headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def _read_mail(self) -> None:
        for mail in self._providers.mailboxes.sent():
            if mail.mail_id in self._seen:
                continue
            if mail.to in (MONA, MAX):
                self._decide(mail)
            elif mail.to == TESS and mail.custom_args.get("purpose", "hand_over") == "hand_over":
                self._answer_as_team(mail)
            self._seen.add(mail.mail_id)

    def _decide(self, mail: SentMail) -> None:
        """Click until it is taken; where the customer is to think better of it, let them write instead."""
        link, customer = find_link(mail), _CUSTOMER.search(mail.text)
        if link is None or customer is None:
            return
        order_id, address = f"W{customer[1]}", customer[0]
        if order_id in self._withdrawn:
            if not self._withdrawn[order_id]:
                self._withdrawn[order_id] = True
                again = letter(NEVER_MIND.format(order_id), from_address=address)
                kind = Kind.NEVER_MIND
                self._post(Written(again.message_id, kind, address, address, order_id), again)
            return
        decision = "approve" if self._chance.random() < 0.7 else "reject"
        while self._alive.is_set() and not self._press(link, mail.to, order_id, decision):
            time.sleep(1)

    def _press(self, link: str, manager: str, order_id: str, decision: str) -> bool:
        """Click twice; return whether it is decided."""
        path = link.partition("/approvals/")[2]
        web = random.choice(self._webs)
        url = f"http://127.0.0.1:{web.port}/approvals/{path}"
        with httpx2.Client(timeout=10, follow_redirects=True, trust_env=False) as browser:
            try:
                page = browser.get(url)
            except httpx2.HTTPError:
                return False
            token = find_csrf_token(page.text)
            if token is None:
                return page.status_code < 500  # decided already
            fields = {"decision": decision, "csrf_token": token}
            taken = False
            for _ in range(2):
                self.counter.clicks += 1
                with contextlib.suppress(httpx2.HTTPError):
                    answer = browser.post(url, data=fields, headers={"Referer": url})
                    decided = find_csrf_token(answer.text) is None
                    taken |= answer.status_code == 200 and decided
        self.story.clicks.append(Click(order_id, manager, decision, taken))
        return taken

    def _answer_as_team(self, mail: SentMail) -> None:
        customer = _CUSTOMER.search(mail.text)
        if mail.reply_to is None or customer is None or self._chance.random() < 0.5:
            return
        words = "Dear Ada, I am Tess of the shop. We are looking into it and will call you."
        reply = letter(
            words, from_address=TESS, from_name="Tess", to=mail.reply_to,
            subject=f"Re: {mail.subject}", in_reply_to=mail.message_id,
        )  # fmt: skip
        order_id = f"W{customer[1]}"
        written = Written(reply.message_id, Kind.TEAM_REPLY, TESS, customer[0], order_id)
        self._post(written, reply)


def _persist(write: Callable[[], None]) -> None:
    """Write a row although the database may be away just now."""
    for _ in range(60):
        try:
            return write()
        except Exception:  # noqa: BLE001 - whatever the outage looks like from here
            time.sleep(1)
    return write()
