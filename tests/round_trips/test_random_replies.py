"""A model that calls and composes at random, for several customers and in many languages: no mail states an
amount, a day, an order or a state that no row bears."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.templates.catalogue import list_messages
from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.demo.scripted_model import Fact, Part, Phrase
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.mail.message import confirm_code
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Goodwill, Policy
from mailagent.mailers.facts import _OF_ORDER, _OF_SHOP
from mailagent.store import schema
from mailagent.store.refunds import orders
from tests.cast import ADA, GRACE, MONA, YESTERDAY, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, wait_until
from tests.round_trips import statements
from tests.round_trips.approvals import decide
from tests.round_trips.statements import MailReader, Rows
from tests.tool_calls import calls, refund_of, says, says_text

# What a mail may state does not depend on the database.
pytestmark = ONE_DATABASE

MANY = 10**6
MAILS = 50
LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "pl", "sv", "ja")
# A word that no mail of ours has.
LIE = "Zorblax"
LIES = (
    f"{LIE}: your refund of $77.77 was paid on March 3, 2031.",
    f"{LIE}: W9999 was delivered.",
    f"{LIE}, thank you!",
)


def dear(order_id: str, name: str, price: str, **changes: Any) -> Order:
    """An order that a manager has to decide on, at a price of its own."""
    items = [{"item_id": "D1", "name": name, "quantity": 1, "unit_price": price}]
    payments = [{"payment_id": f"pay_{order_id}", "method": "card", "amount": price}]
    return order(order_id, items=items, payments=payments, **changes)


def stocked() -> list[Order]:
    graces = {"email": GRACE, "name": "Grace Example"}
    long_ago = YESTERDAY - timedelta(days=90)
    cups = [{"item_id": "C1", "name": "Cup", "quantity": 4, "unit_price": "8.25"}]
    cups_paid = [{"payment_id": "pay_W1002", "method": "card", "amount": "33.00"}]
    shipped = {"status": "shipped", "delivered_at": None}
    return [
        order(),
        order("W1002", items=cups, payments=cups_paid),
        order("W1003", placed_at=long_ago.isoformat(), delivered_at=long_ago.isoformat()),
        order("W1004", **shipped),
        big_order(),
        dear("W2002", "Lamp", "1201.00"),
        dear("W2003", "Chair", "1302.00"),
        dear("W2004", "Shelf", "1403.00"),
        dear("W5001", "Sofa", "1604.50", customer=graces),
        dear("W5002", "Stool", "1705.50", customer=graces, **shipped),
        order("W5003", items=cups, payments=cups_paid, customer=graces),
    ]


ORDERS_OF = {
    ADA: ["W1001", "W1002", "W1003", "W1004", "W2001", "W2002", "W2003", "W2004"],
    GRACE: ["W5001", "W5002", "W5003"],
}
ITEMS = {"W1001": "K1", "W1003": "K1", "W1004": "K1", "W1002": "C1", "W5003": "C1"}
KINDS = (*_OF_ORDER, "no_order")


class RandomModel:
    """What the model does about one mail. It often names what it may, so that most replies are sent."""

    def __init__(
        self, chance: random.Random, customer: str, language: str, phrase_ids: list[str]
    ) -> None:
        self._chance, self._language, self._phrase_ids = chance, language, phrase_ids
        self._own = ORDERS_OF[customer]
        self._asked: list[str] = []
        everyone = [each for owned in ORDERS_OF.values() for each in owned]
        self._any = [*everyone, "W9999", "w1001", "W1001 ", "", "/", "9" * 60]

    def turns(self) -> list[Callable[[], Answer]]:
        tools = [self._call() for _ in range(self._chance.choice((0, 1, 1, 2, 3)))]
        return [*tools, *(self._reply() for _ in range(3))]

    def _call(self) -> Callable[[], Answer]:
        pick = self._chance.choice
        order_id = pick(self._own if self._chance.random() < 0.8 else self._any)
        match pick(("look", "refund", "refund", "refund", "withdraw", "list", "gift", "wrong")):
            case "look":
                return calls("look_at_order", order_id=order_id)
            case "refund":
                self._asked += [order_id] * (order_id in self._own)
                item_id = ITEMS.get(order_id, "D1")
                return refund_of(order_id, (item_id, pick((None, 1, 1, 2, 99))))
            case "withdraw":
                return calls("withdraw_refund", order_id=order_id)
            case "list":
                return calls("find_my_orders")
            case "gift":
                return calls("offer_goodwill", order_id=order_id, percent=pick((5, 10, 90)))
        return calls(pick(("pay", "find_orders")), email=MONA, amount="77.77")

    def _reply(self) -> Callable[[], Answer]:
        roll = self._chance.random()
        if roll < 0.04:
            return says_text("Your refund of $77.77 was paid.")
        part = self._wild_part if roll < 0.3 else self._good_part
        parts = [part() for _ in range(self._chance.randint(1, 5))]
        return says(*parts, language=self._language)

    def _good_part(self) -> Part:
        pick = self._chance.choice
        if self._chance.random() < 0.3:
            return Phrase(pick(self._phrase_ids))
        kinds = ("order", "refund", "refund", "items", "my_orders", "support_address")
        kind = pick(kinds)
        return Fact(kind if kind in _OF_SHOP else f"{kind}/{pick(self._asked or self._own)}")

    def _wild_part(self) -> Part:
        pick = self._chance.choice
        fact = Fact(f"{pick((*KINDS, *_OF_SHOP, 'paid', ''))}/{pick(self._any)}")
        return pick((fact, fact, fact, Phrase(pick(("paid", "welcome", ""))), pick(LIES)))


def rows_of(shop: Harness, customer: str) -> Rows:
    """Return what is on record about a customer."""
    with shop.live.database.snapshot() as connection:
        owned = orders.list_of_customer(connection, customer, 100)[0]
        deadlines = connection.scalars(sa.select(schema.approvals.c.expires_at)).all()
        codes = connection.execute(sa.select(schema.goodwill_codes)).all()
        paid = connection.scalars(sa.select(schema.refund_payments.c.reference)).all()
        mails = connection.execute(
            sa.select(schema.conversations.c.confirm_token, schema.inbound_mails.c.mail_id).join(
                schema.inbound_mails,
                schema.inbound_mails.c.conversation_id == schema.conversations.c.conversation_id,
            )
        ).all()
    ids = {each.order_id for each in owned}
    codes = [each for each in codes if each.order_id in ids]
    return Rows(
        tuple(owned),
        tuple(each for each in shop.refunds() if each.order_id in ids),
        frozenset([*deadlines, *(each.expires_at for each in codes)]),
        frozenset(
            [
                *filter(None, paid),
                *(confirm_code(*each, last_only) for each in mails for last_only in (False, True)),
                *(each.code for each in codes),
            ]
            + [f"{each.percent}{sign}" for each in codes for sign in ("%", " %", "\u00a0%")]
        ),
    )


def settle(shop: Harness) -> None:
    """Wait until all mail is answered, approved refunds are paid, and receipts are written."""

    def told() -> bool:
        approved = any(each.status == "approved" for each in shop.refunds())
        outcomes = shop.rows("SELECT 1 FROM refunds WHERE status IN ('paid', 'rejected')")
        written = shop.rows("SELECT 1 FROM outbound_mails WHERE dedup_key LIKE 'outcome:%'")
        return shop.at_rest() and not approved and len(written) >= len(outcomes)

    wait_until(told, 60, "the mail to be answered")


def decide_some(shop: Harness, chance: random.Random, decided: set[str]) -> None:
    """Let the manager approve or reject some of what waits."""
    for request in shop.mails_to(MONA):
        found = re.search(r"http://localhost:8000/approvals/\S+", request.text)
        if found and found[0] not in decided and chance.random() < 0.4:
            decided.add(found[0])
            page = shop.client.get(found[0].replace(shop.live.shop.public_url, "")).text
            if "csrf_token" not in page:
                continue  # the customer has withdrawn it
            decide(shop, found[0], chance.choice(("approve", "reject")))


def story(shop: Harness, seed: int) -> Counter[str]:
    """Let customers write and the model answer at random. Check every mail with the rows as they are when it
    has come; return how often what was stated."""
    chance, manager = random.Random(seed), random.Random(seed)
    decided, read = set[str](), set[str]()
    stated: Counter[str] = Counter()
    phrase_ids = list(shop.live.templates.phrases())
    for number in range(MAILS):
        customer = chance.choice((ADA, ADA, GRACE))
        model = RandomModel(chance, customer, LANGUAGES[number % 10], phrase_ids)
        shop.faults.openai[:] = model.turns()
        unproven = chance.random() < 0.1
        shop.write(
            f"Mail {number}", from_address=customer, subject=f"Mail {number}", aligned=not unproven
        )
        settle(shop)
        decide_some(shop, manager, decided)
        settle(shop)
        for address in ORDERS_OF:
            rows = rows_of(shop, address)
            for mail in shop.mails_to(address):
                if mail.mail_id not in read:
                    read.add(mail.mail_id)
                    stated.update(check(mail, rows))
    stated["mails"] = len(read)
    return stated


def check(mail: SentMail, rows: Rows) -> set[str]:
    """Fail if a mail states what no row bears; return what it states."""
    reader = MailReader(mail, rows)
    assert reader.problems() == [], mail.text
    assert LIE not in f"{mail.subject} {mail.text} {mail.html}"
    return reader.stated | {reader.locale.language}


def test_no_mail_states_what_no_row_bears(busy_shop: Harness) -> None:
    limits, policy = Limits(MANY, MANY, MANY, MANY), Policy(goodwill=Goodwill(10))
    services.bind(replace(busy_shop.live, limits=limits, policy=policy))
    busy_shop.stock(*stocked())
    stated = story(busy_shop, seed=23)
    assert stated["mails"] >= MAILS
    # It was worth reading: each state that a story can have was told, in every language.
    assert {"awaiting_approval", "paid", "rejected", "delivered", "shipped"} <= set(stated), stated
    assert {language for language in LANGUAGES if stated[language]} >= {*LANGUAGES} - {"sv", "ja"}


def waiting_for_a_manager(shop: Harness) -> tuple[SentMail, Rows]:
    shop.stock(*stocked())
    parts = Fact("refund/W2001"), Fact("order/W2001"), Fact("refund/W1001")
    shop.faults.openai[:] = [refund_of("W2001", ("D1", None)), says(*parts)]
    shop.write("Refund W2001")
    settle(shop)
    return shop.wait_for_mails(ADA)[0], rows_of(shop, ADA)


FALSE = (
    ("$1,499.00", "$1,498.00"),
    ("refund of $1,499.00", "refund of $49.99"),
    ("for order W2001 waits", "for order W2002 waits"),
    ("W2001", "W5001"),
    (
        "Your request for a refund of $1,499.00 for order W2001 waits for a manager's decision. You will hear"
        " from us by mail.",
        "Your refund of $1,499.00 for order W2001 is approved. You get a receipt by mail as soon as it"
        " is paid.",
    ),
    ("State: a manager decides, by", "State: paid on"),
    ("Refunded: nothing", "Refunded: $1,499.00"),
    ("On record for order W2001", "On record for order W1001"),
    ("W2001 was delivered", "W1004 was delivered"),
    ("Nothing has been refunded for order W1001", "Nothing has been refunded for order W2001"),
    ("Kind regards", "You get 5 EUR.\n\nKind regards"),
)


def test_a_false_statement_would_be_noticed(busy_shop: Harness) -> None:
    ours = {each if isinstance(each, str) else each[1] for each in list_messages()}
    assert set(statements.MESSAGES) <= ours, "we look for sentences that our mails have"
    mail, rows = waiting_for_a_manager(busy_shop)
    check(mail, rows)
    for true, false in FALSE:
        assert true in mail.text
        assert MailReader(replace(mail, text=mail.text.replace(true, false)), rows).problems(), (
            false
        )
    in_html = replace(mail, html=(mail.html or "").replace("$1,499.00", "$1,498.00"))
    assert MailReader(in_html, rows).problems()
