"""Everybody who writes: customers, managers who click twice, the team, and SendGrid's two webhooks."""

from __future__ import annotations

import contextlib
import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from mailagent.demo.approval_page import Browser, find_link
from mailagent.demo.inbound_parse import CONTENT_TYPE, build_body
from mailagent.demo.mailboxes import Letter, SentMail
from mailagent.demo.postman import Postman
from mailagent.demo.webhook_key import WebhookKey
from mailagent.store import orders
from mailagent.store.database import Database
from tests.cast import MAX, MONA, TESS, order
from tests.processes import Web
from tests.soak.providers import Providers
from tests.stage import letter

GIVE_UP_SECONDS = 300.0
PAUSE_SECONDS = 0.5

WORDS = {
    "question": "What is the status of my order {0}? I would like to know whether it has arrived.",
    "small refund": "My kettle from order {0} arrived broken. I want my money back.",
    "big refund": "The standing desk of order {0} is damaged, please refund it.",
    "withdrawal": "The standing desk of order {0} is damaged, please refund it.",
    "hand-over": "This is outrageous! I want to talk to a human being, now!",
}
NEVER_MIND = "Never mind, I do not want a refund for order {0} any more."
SHARES = {"question": 4, "small refund": 4, "big refund": 2, "withdrawal": 1, "hand-over": 1}


@dataclass
class Tally:
    """What was written and how it was taken. `posted_at`, by Message-ID: when it was first tried."""

    accepted: set[str] = field(default_factory=set)
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
        self.tally = Tally()
        self._webs, self._providers, self._database = webs, providers, database
        self._chance = random.Random(seed)
        self._writing, self._alive = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._seen: set[str] = set()
        self._withdrawn: set[str] = set()
        self._under_way = 0
        self._number = 10_000

    def start(self, mails_per_second: float) -> None:
        self._writing.set()
        self._alive.set()
        postmen = [
            Postman(
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
            kind = self._chance.choices(list(SHARES), list(SHARES.values()))[0]
            self._write(kind)
            time.sleep(pause_seconds * self._chance.uniform(0.5, 1.5))

    def _write(self, kind: str) -> None:
        self._number += 1
        order_id, address = f"W{self._number}", f"ada.{self._number}@example.com"
        if kind == "withdrawal":
            self._withdrawn.add(order_id)
        self._post(
            kind, letter(WORDS[kind].format(order_id), from_address=address),
            before=partial(self._stock, order_id, address, kind),
        )  # fmt: skip

    def _stock(self, order_id: str, address: str, kind: str) -> None:
        desk = kind in ("big refund", "withdrawal")
        price, name = ("1499.00", "Standing desk") if desk else ("49.99", "Kettle")
        payment_id = f"pi_{order_id}"
        self._providers.stripe.payments[payment_id] = int(price.replace(".", ""))
        bought = order(
            order_id,
            customer={"email": address, "name": "Ada Example"},
            items=[{"item_id": "K1", "name": name, "quantity": 1, "unit_price": price}],
            payments=[{"payment_id": payment_id, "method": "card", "amount": price}],
        )
        with self._database.transaction() as connection:
            orders.save(connection, bought, datetime.now(UTC) - timedelta(hours=1))

    def _post(self, kind: str, written: Letter, before: Callable[[], None] = lambda: None) -> None:
        self.tally.mails[kind] += 1
        self.tally.posted_at[written.message_id] = time.time()
        with self._lock:
            self._under_way += 1
        self._run(partial(self._deliver, written, before, self._chance.random() < 0.1))

    def _deliver(self, written: Letter, before: Callable[[], None], twice: bool) -> None:
        """Post as SendGrid does: again after 5xx and no answer; now and then once too often."""
        try:
            _persist(before)
            body = build_body(written)
            deadline = time.monotonic() + GIVE_UP_SECONDS
            while self._try(body) != 200 and time.monotonic() < deadline:
                self.tally.redelivered += 1
                time.sleep(PAUSE_SECONDS)
            if time.monotonic() < deadline:
                self.tally.accepted.add(written.message_id)
            if twice:
                self.tally.duplicates += 1
                self._try(body)
        finally:
            with self._lock:
                self._under_way -= 1

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
        """Click twice; where the customer is to think better of it, let them write instead."""
        link = find_link(mail)
        order_id = next(
            (word.strip(".,") for word in mail.text.split() if word.startswith("W1")), ""
        )
        if link is None:
            return
        if order_id in self._withdrawn:
            self._withdrawn.discard(order_id)
            address = f"ada.{order_id[1:]}@example.com"
            self._post("withdrawal", letter(NEVER_MIND.format(order_id), from_address=address))
            return
        decision = "approve" if self._chance.random() < 0.7 else "reject"
        clicked = 0
        for _ in range(8):
            if clicked == 2 or not self._alive.is_set():
                return
            clicked += self._press(link, decision)

    def _press(self, link: str, decision: str) -> int:
        path = link.partition("/approvals/")[2]
        web = random.choice(self._webs)
        url = f"http://127.0.0.1:{web.port}/approvals/{path}"
        browser = Browser()
        try:
            page = browser.open(url)
        except (OSError, http.client.HTTPException):
            time.sleep(1)
            return 0
        if page.csrf_token is None:
            return 1 if page.status < 500 else 0  # decided already
        self.tally.clicks += 1
        sent = browser.send(url, decision=decision, csrf_token=page.csrf_token)
        return 1 if sent is not None and sent.status < 500 else 0

    def _answer_as_team(self, mail: SentMail) -> None:
        if mail.reply_to is None or self._chance.random() < 0.5:
            return
        words = "Dear Ada, I am Tess of the shop. We are looking into it and will call you."
        reply = letter(
            words, from_address=TESS, from_name="Tess", to=mail.reply_to,
            subject=f"Re: {mail.subject}", in_reply_to=mail.message_id,
        )  # fmt: skip
        self._post("team reply", reply)


def _persist(write: Callable[[], None]) -> None:
    """Write a row although the database may be away just now."""
    for _ in range(60):
        try:
            return write()
        except Exception:  # noqa: BLE001 - whatever the outage looks like from here
            time.sleep(1)
    return write()
