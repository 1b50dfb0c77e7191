"""The story of `flask demo --once`: refunds, a cancelled order, a return and two crashes, all checked."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from mailagent.demo import shop
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor

_ADA, _GRACE, _MONA = "ada@example.com", "grace@example.org", "mona@shop.example"
_PEOPLE = {_ADA: "Ada", _GRACE: "Grace", _MONA: "Mona (manager)"}
_KETTLE, _LAPTOP, _TEAPOT, _CAMERA = "W1001", "W1004", "W1014", "W1010"

_POLL_SECONDS = 0.1

T = TypeVar("T")


class FactMissing(Exception):
    """The app does not do something that the story promises; the text says what."""


@dataclass(frozen=True, slots=True)
class RefundRecord:
    """The status of a refund, the amount of each payment made for it, and each decision with its author."""

    status: str
    ledger_minor: tuple[int, ...]
    decisions: tuple[tuple[str, str], ...]


class Story:
    """Writes mails, kills the app, opens links, and checks the outcome of each."""

    def __init__(
        self, folder: Path, providers: Providers, supervisor: Supervisor, say: Callable[[str], None]
    ) -> None:
        self._crash_marker = folder / "crashed"
        self._providers = providers
        self._supervisor = supervisor
        self._database = folder / "mailagent.db"
        self._say = say
        self._timeout_seconds = 120.0 if providers.uses_real_model else 60.0
        # Keeps cookies, as the CSRF protection expects. Uses no proxy of the environment.
        self._browser = httpx2.Client(timeout=10, follow_redirects=True, trust_env=False)
        self._shown: set[str] = set()
        self.facts = 0  # checked so far

    def run(self) -> None:
        """Tell the whole story. Raises FactMissing at the first fact that does not hold."""
        try:
            self._small_refund()
            self._expensive_refund()
            self._crash_while_it_waits()
            link = self._manager_looks()
            token = self._manager_approves(link)
            self._second_click(link, token)
            self._cancel()
            self._return()
            self._check_everything()
        except httpx2.HTTPError as problem:
            raise FactMissing(f"the app answers ({problem})") from problem

    def _fact(self, fact: str, holds: bool) -> None:
        if not holds:
            raise FactMissing(fact)
        self.facts += 1
        self._say(f"  ✓ {fact}")

    def _wait_for(self, fact: str, find: Callable[[], T | None]) -> T:
        """Wait until `find` finds something, and return it. Raises FactMissing after the timeout."""
        deadline = time.monotonic() + self._timeout_seconds
        while not (found := find()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if not found:
            raise FactMissing(fact)
        self._fact(fact, True)
        return found

    def _small_refund(self) -> None:
        self._say("\nA small refund: 49.99 USD, paid without asking a manager")
        self._write(shop.SMALL_REFUND)
        refund = self._wait_for("the refund is in the ledger", lambda: self._paid(_KETTLE))
        self._wait_for_mail(_ADA, 2, "Ada got an answer and a receipt")
        self._show_mail(_ADA)
        self._fact("the refund is paid once: 49.99 USD", refund.ledger_minor == (4999,))
        self._fact("no person had to decide", not refund.decisions)
        self._fact("no manager was asked", not self._sent(_MONA))

    def _expensive_refund(self) -> None:
        self._say("\nAn expensive refund: 1,499.00 USD, a manager has to decide")
        self._write(shop.EXPENSIVE_REFUND)
        self._wait_for_mail(_MONA, 1, "a manager was asked by mail")
        self._wait_for_mail(_GRACE, 1, "Grace got a mail that a manager decides")
        self._show_mail(_GRACE)
        self._show_mail(_MONA)
        self._fact("the refund waits", self._laptop().status == "awaiting_approval")
        self._fact("nothing was paid", self._laptop().ledger_minor == ())

    def _cancel(self) -> None:
        self._say("\nAn order is cancelled before it is shipped, in the shop's own system")
        self._write(shop.CANCEL)
        told = self._wait_for("Ada hears that it is cancelled", lambda: self._tells("is cancelled"))
        self._say(f"  → Ada reads: “{_gist(told)}”")
        paid = self._wait_for("what she paid is refunded", lambda: self._paid(_TEAPOT))
        self._fact("once: 42.00 USD", paid.ledger_minor == (4200,))

    def _return(self) -> None:
        self._say("\nA refund that waits for the goods: 480.00 USD")
        self._write(shop.RETURN)
        told = self._wait_for(
            "Grace hears where to send the lens", lambda: self._tells("1 Shop Street")
        )
        self._say(f"  → Grace reads: “{_gist(told)}”")
        waits = self._refunds(_CAMERA)[0]
        self._fact("nothing is paid before it is back", waits.ledger_minor == ())
        ((return_id,),) = self._rows(
            "SELECT remedy_id FROM remedies WHERE status = 'awaiting_goods'"
        )
        self._say("  The warehouse says that it is back")
        url = f"{self._providers.app_url}/api/returns/{return_id}/received"
        headers = {"Authorization": f"Bearer {self._providers.orders_token}"}
        self._browser.post(url, headers=headers).raise_for_status()
        paid = self._wait_for("then it is paid", lambda: self._paid(_CAMERA))
        self._fact("once: 480.00 USD", paid.ledger_minor == (48000,))

    def _tells(self, words: str) -> SentMail | None:
        sent = (mail for who in (_ADA, _GRACE) for mail in self._sent(who))
        return next((mail for mail in sent if words in mail.text), None)

    def _crash_while_it_waits(self) -> None:
        self._say("\nThe app is killed while the refund waits (SIGKILL)")
        # The next process kills itself once: at the end of the step that pays, before DBOS has recorded
        # the step. The process after that runs the step again.
        self._supervisor.environment["MAILAGENT_CRASH_AT"] = "pay_refund:asked"
        self._supervisor.environment["MAILAGENT_CRASH_ONCE"] = str(self._crash_marker)
        before = self._process()
        self._supervisor.crash()
        self._supervisor.wait_until_ready()
        self._fact("the app is another process now", self._process() != before)
        self._fact("the refund still waits", self._laptop().status == "awaiting_approval")
        self._fact("the manager was not asked again", len(self._sent(_MONA)) == 1)

    def _manager_looks(self) -> str:
        self._say("\nMona opens the link twice: looking changes nothing")
        link = find_link(self._sent(_MONA)[0])
        if link is None:
            raise FactMissing("the manager's mail has a link to the approval page")
        for _ in range(2):
            page = self._browser.get(link)
            shown = page.status_code == 200 and _says(page, _LAPTOP)
            self._fact("the page shows the refund request", shown)
        laptop = self._laptop()
        self._fact("the refund still waits", laptop.status == "awaiting_approval")
        self._fact("no decision is recorded", laptop.decisions == ())
        self._fact("nothing is paid", laptop.ledger_minor == ())
        return link

    def _manager_approves(self, link: str) -> str:
        self._say(
            "\nMona approves; the app is killed in the step that pays, before that step is recorded"
        )
        token = find_csrf_token(self._browser.get(link).text)
        if token is None:
            raise FactMissing("the form carries a CSRF token")
        before = self._process()
        with suppress(httpx2.HTTPError):  # the app may die before it answers
            self._decide(link, token, "approve")
        self._wait_for("the app came to the payment", self._crash_marker.exists)
        self._wait_for("it died there, and is another process now", lambda: self._is_not(before))
        refund = self._wait_for("after the restart the refund is paid", lambda: self._paid(_LAPTOP))
        self._wait_for_mail(_GRACE, 2, "Grace got her receipt")
        self._show_mail(_GRACE)
        self._fact("it was paid exactly once: 1,499.00 USD", refund.ledger_minor == (149900,))
        self._fact("it is on record that Mona decided", refund.decisions == (("approve", _MONA),))
        return token

    def _second_click(self, link: str, token: str) -> None:
        self._say("\nMona clicks once more, and then on the other button")
        page = self._browser.get(link)
        self._fact("the page shows who decided", _says(page, _MONA) and _says(page, "approved"))
        late = self._decide(link, token, "reject")
        self._fact("the late click gets the same page", _says(late, "approved"))
        self._fact("the first decision stands", self._laptop().decisions == (("approve", _MONA),))

    def _decide(self, link: str, token: str, decision: str) -> httpx2.Response:
        fields = {"decision": decision, "note": "", "amount": "", "csrf_token": token}
        return self._browser.post(link, data=fields, headers={"Referer": link})

    def _check_everything(self) -> None:
        self._say("\nA last check of everything")
        self._wait_for("everything is answered and sent", self._all_mail_is_done)
        time.sleep(1.5)  # a second mail or payment would arrive now
        receipts = "SELECT count(*) FROM outbound_mails WHERE purpose = 'receipt'"
        answers = "SELECT count(*) FROM outbound_mails WHERE purpose = 'reply'"
        self._fact("each mail has one answer", self._rows(answers) == [(4,)])
        self._fact("each refund has one receipt", self._rows(receipts) == [(4,)])
        self._fact("the manager was asked once", len(self._sent(_MONA)) == 1)
        self._fact("no mail went out twice", self._no_mail_twice())
        payments = self._rows("SELECT count(*) FROM ledger_entries")
        self._fact("four refunds, four payments", payments == [(4,)])
        orders = (_KETTLE, _LAPTOP, _TEAPOT, _CAMERA)
        self._fact("all of them are paid", all(map(self._paid, orders)))

    def _sent(self, address: str) -> list[SentMail]:
        return self._providers.mailboxes.sent(address)

    def _paid(self, order_id: str) -> RefundRecord | None:
        refunds = self._refunds(order_id)
        return refunds[0] if [refund.status for refund in refunds] == ["paid"] else None

    def _laptop(self) -> RefundRecord:
        refunds = self._refunds(_LAPTOP)
        if len(refunds) != 1:
            raise FactMissing(f"there is one refund of {_LAPTOP} (there are {len(refunds)})")
        return refunds[0]

    def _refunds(self, order_id: str) -> list[RefundRecord]:
        ledger = "SELECT amount_minor FROM ledger_entries WHERE refund_id = ?"
        decisions = (
            "SELECT decision, decided_by FROM decisions JOIN approvals USING (approval_id)"
            " WHERE refund_id = ?"
        )
        return [
            RefundRecord(
                status,
                tuple(amount for (amount,) in self._rows(ledger, refund_id)),
                tuple(self._rows(decisions, refund_id)),
            )
            for refund_id, status in self._rows(
                "SELECT refund_id, status FROM refunds WHERE order_id = ?", order_id
            )
        ]

    def _all_mail_is_done(self) -> bool:
        return not self._rows(
            "SELECT 1 FROM inbound_mails WHERE status = 'unanswered'"
            " UNION ALL SELECT 1 FROM outbound_mails WHERE status <> 'sent'"
        )

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._database, timeout=10)) as connection:
            return connection.execute(query, values).fetchall()

    def _process(self) -> int:
        state = self._browser.get(f"{self._providers.app_url}/demo/state").json()
        return int(state["process"]["pid"])

    def _is_not(self, process: int) -> bool:
        try:
            return self._process() != process
        except (httpx2.HTTPError, ValueError):  # dead, or not quite up again
            return False

    def _no_mail_twice(self) -> bool:
        mails = self._providers.mailboxes.sent()
        ids = Counter(mail.message_id for mail in mails)
        return None not in ids and max(ids.values()) == 1

    def _write(self, letter: shop.ReadyMail) -> None:
        self._say(f"  {letter.sender} writes: “{' '.join(letter.text.split())}”")
        fields = {"from": letter.sender, "subject": letter.subject, "text": letter.text}
        url = f"{self._providers.sendgrid.url}/demo/letters"
        self._browser.post(url, json=fields).raise_for_status()

    def _show_mail(self, address: str) -> None:
        for mail in self._sent(address):
            if mail.mail_id not in self._shown:
                self._shown.add(mail.mail_id)
                self._say(f"  → {_PEOPLE[address]} reads: “{_gist(mail)}”")

    def _wait_for_mail(self, address: str, count: int, fact: str) -> None:
        self._wait_for(fact, lambda: len(self._sent(address)) >= count)


def _gist(mail: SentMail) -> str:
    """Return the first paragraph of a mail that says something."""
    paragraphs = [" ".join(part.split()) for part in mail.text.split("\n\n")]
    return next((part for part in paragraphs if len(part) > 20), mail.subject)


# --- approval page --------------------------------------------------------------------------------


_LINK = re.compile(r"https?://\S+/approvals/[^\s>)\]\"']+")
_CSRF_TOKEN = re.compile(r"<input[^>]*name=\"csrf_token\"[^>]*value=\"([^\"]+)\"")


def find_link(mail: SentMail) -> str | None:
    """Return the approval link in a manager's mail."""
    found = _LINK.search(mail.text)
    return found[0] if found else None


def find_csrf_token(html: str) -> str | None:
    """Return the token of the form on the approval page."""
    found = _CSRF_TOKEN.search(html)
    return unescape(found[1]) if found else None


def _says(page: httpx2.Response, text: str) -> bool:
    return text.lower() in unescape(page.text).lower()
