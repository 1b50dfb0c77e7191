"""`flask demo --once`: two refunds and two crashes, told as they happen and checked at every turn."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable

from mailagent.demo import shop
from mailagent.demo.approval_page import Browser, find_link
from mailagent.demo.folder import DemoFolder
from mailagent.demo.mailboxes import SentMail
from mailagent.demo.narrator import FactMissing, Narrator
from mailagent.demo.providers import Providers
from mailagent.demo.records import Records, RefundRecord
from mailagent.demo.supervisor import Supervisor

_ADA, _GRACE, _MONA = "ada@example.com", "grace@example.org", "mona@shop.example"
_PEOPLE = {_ADA: "Ada", _GRACE: "Grace", _MONA: "Mona (manager)"}
_KETTLE, _LAPTOP = "W1001", "W1004"


class Story:
    """Writes, kills, clicks and checks; what it finds it tells through a Narrator."""

    def __init__(
        self,
        folder: DemoFolder,
        providers: Providers,
        supervisor: Supervisor,
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._providers = providers
        self._supervisor = supervisor
        self._records = Records(folder.database)
        narrator = Narrator(say, 120.0 if providers.uses_real_model else 60.0)
        self._narrator = narrator
        self._say, self._title = say, narrator.title
        self._fact, self._wait_for = narrator.fact, narrator.wait_for
        self._browser = Browser()
        self._shown: set[str] = set()

    @property
    def facts(self) -> int:
        """How many facts were found to hold."""
        return self._narrator.facts

    def run(self) -> None:
        """Tell the whole story. Raises FactMissing at the first thing that is not as promised."""
        try:
            self._small_refund()
            self._expensive_refund()
            self._crash_while_it_waits()
            link = self._manager_looks()
            token = self._manager_approves(link)
            self._second_click(link, token)
            self._last_look()
        except OSError as problem:
            raise FactMissing(f"the app answers ({problem})") from problem

    def _small_refund(self) -> None:
        self._title("A small refund: 49.99 USD, nobody has to be asked")
        self._write(shop.SMALL_REFUND)
        refund = self._wait_for("the refund is in the ledger", lambda: self._paid(_KETTLE))
        self._wait_for_mail(_ADA, 2, "Ada got an answer and a receipt")
        self._show_mail(_ADA)
        self._fact("the refund is paid once: 49.99 USD", refund.ledger_minor == (4999,))
        self._fact("no person had to decide", not refund.decisions)
        self._fact("no manager was asked", not self._sent(_MONA))

    def _expensive_refund(self) -> None:
        self._title("An expensive refund: 1,499.00 USD, a manager has to decide")
        self._write(shop.EXPENSIVE_REFUND)
        self._wait_for_mail(_MONA, 1, "a manager was asked by mail")
        self._wait_for_mail(_GRACE, 1, "Grace was told that a manager looks at it")
        self._show_mail(_GRACE)
        self._show_mail(_MONA)
        self._fact("the refund waits", self._laptop().status == "awaiting_approval")
        self._fact("nothing was paid", self._laptop().ledger_minor == ())

    def _crash_while_it_waits(self) -> None:
        self._title("The app is killed while the refund waits (SIGKILL)")
        # From now on it also dies by itself: once, at the end of the step that pays, before DBOS has
        # recorded the step. So the next process is told to pay again.
        self._supervisor.environment["MAILAGENT_CRASH_AT"] = "pay_refund:asked"
        self._supervisor.environment["MAILAGENT_CRASH_ONCE"] = str(self._folder.crash_marker)
        before = self._process()
        self._supervisor.crash()
        self._supervisor.wait_until_ready()
        self._fact("the app is another process now", self._process() != before)
        self._fact("the refund still waits", self._laptop().status == "awaiting_approval")
        self._fact("the manager was not asked again", len(self._sent(_MONA)) == 1)

    def _manager_looks(self) -> str:
        self._title("Mona opens the link twice: looking changes nothing")
        link = find_link(self._sent(_MONA)[0])
        if link is None:
            raise FactMissing("the manager's mail has a link to the approval page")
        for _ in range(2):
            page = self._browser.open(link)
            self._fact("the page shows the case", page.status == 200 and page.says(_LAPTOP))
        laptop = self._laptop()
        self._fact("the refund still waits", laptop.status == "awaiting_approval")
        self._fact("no decision is recorded, nothing is paid", _untouched(laptop))
        return link

    def _manager_approves(self, link: str) -> str:
        self._title(
            "Mona approves; the app is killed in the step that pays, before that step is recorded"
        )
        token = self._browser.open(link).csrf_token
        if token is None:
            raise FactMissing("the form carries a CSRF token")
        before = self._process()
        self._browser.send(link, decision="approve", note="", amount="", csrf_token=token)
        self._wait_for("the app came to the payment", self._folder.crash_marker.exists)
        self._wait_for("it died there, and is another process now", lambda: self._is_not(before))
        refund = self._wait_for("after the restart the refund is paid", lambda: self._paid(_LAPTOP))
        self._wait_for_mail(_GRACE, 2, "Grace got her receipt")
        self._show_mail(_GRACE)
        self._fact("it was paid exactly once: 1,499.00 USD", refund.ledger_minor == (149900,))
        self._fact("it is on record that Mona decided", refund.decisions == (("approve", _MONA),))
        return token

    def _second_click(self, link: str, token: str) -> None:
        self._title("Mona clicks once more, and then on the other button")
        page = self._browser.open(link)
        self._fact("the page shows who decided", page.says(_MONA) and page.says("approved"))
        late = self._browser.send(link, decision="reject", note="too late", csrf_token=token)
        self._fact("the late click is told the same", late is not None and late.says("approved"))
        self._fact("the first decision stands", self._laptop().decisions == (("approve", _MONA),))

    def _last_look(self) -> None:
        self._title("One last look at everything")
        self._wait_for("everything is answered and sent", lambda: not self._records.unfinished())
        time.sleep(1.5)  # a mail or a payment too many would come now
        count = {address: len(self._sent(address)) for address in _PEOPLE}
        self._fact(
            "each customer has one answer and one receipt", count[_ADA] == count[_GRACE] == 2
        )
        self._fact("the manager was asked once", count[_MONA] == 1)
        self._fact("no mail went out twice", self._no_mail_twice())
        self._fact("two refunds, two payments", self._records.ledger_count() == 2)
        self._fact("both refunds are paid", bool(self._paid(_KETTLE) and self._paid(_LAPTOP)))

    # --- looking -----------------------------------------------------------------------------------

    def _sent(self, address: str) -> list[SentMail]:
        return self._providers.mailboxes.sent(address)

    def _paid(self, order_id: str) -> RefundRecord | None:
        refunds = self._records.refunds(order_id)
        return refunds[0] if [refund.status for refund in refunds] == ["paid"] else None

    def _laptop(self) -> RefundRecord:
        refunds = self._records.refunds(_LAPTOP)
        if len(refunds) != 1:
            raise FactMissing(f"there is one refund of {_LAPTOP} (there are {len(refunds)})")
        return refunds[0]

    def _process(self) -> int:
        """Return the process number of the app, as the app says it."""
        state = json.loads(self._browser.open(f"{self._providers.app_url}/demo/state").html)
        return int(state["process"]["pid"])

    def _is_not(self, process: int) -> bool:
        try:
            return self._process() != process
        except (OSError, ValueError):  # dead, or not quite up again
            return False

    def _no_mail_twice(self) -> bool:
        mails = self._providers.mailboxes.sent()
        ids = Counter(mail.message_id for mail in mails)
        return None not in ids and max(ids.values()) == 1

    # --- acting and telling --------------------------------------------------------------------------

    def _write(self, letter: shop.ReadyLetter) -> None:
        self._say(f"  {letter.sender} writes: “{' '.join(letter.text.split())}”")
        fields = {"from": letter.sender, "subject": letter.subject, "text": letter.text}
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self._providers.sendgrid.url}/demo/letters",
            json.dumps(fields).encode(),
            {"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=5):
            pass

    def _show_mail(self, address: str) -> None:
        for mail in self._sent(address):
            if mail.mail_id not in self._shown:
                self._shown.add(mail.mail_id)
                self._say(f"  → {_PEOPLE[address]} reads: “{_gist(mail)}”")

    def _wait_for_mail(self, address: str, count: int, fact: str) -> None:
        self._wait_for(fact, lambda: len(self._sent(address)) >= count)


def _untouched(refund: RefundRecord) -> bool:
    return refund.decisions == () and refund.ledger_minor == ()


def _gist(mail: SentMail) -> str:
    """Return the first paragraph of a mail that says something."""
    paragraphs = [" ".join(part.split()) for part in mail.text.split("\n\n")]
    return next((part for part in paragraphs if len(part) > 30), mail.subject)
