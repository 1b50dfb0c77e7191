"""The demo's small shop: its people, a dozen orders, and letters that are ready to send."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

SUPPORT_ADDRESS = "support@shop.example"
REPLY_DOMAIN = "shop.example"
MANAGERS = ("mona@shop.example", "max@shop.example")
TEAM = ("tess@shop.example",)
OPERATORS = ("olga@shop.example",)

ADA = "Ada Example <ada@example.com>"
GRACE = "Grace Sample <grace@example.org>"
JUERGEN = "Jürgen Beispiel <juergen@example.net>"
MALLORY = "Mallory <mallory@evil.example>"
CUSTOMERS = (ADA, GRACE, JUERGEN, MALLORY)


@dataclass(frozen=True, slots=True)
class ReadyMail:
    """A letter behind a button. `shows`: what it is there to show; `aligned`: see `mailboxes.Letter`."""

    name: str
    shows: str
    sender: str
    subject: str
    text: str
    aligned: bool = True


SMALL_REFUND = ReadyMail(
    "small",
    "Small refund",
    ADA,
    "My kettle is broken",
    "Hello,\n\nthe kettle of my order W1001 arrived broken: it leaks as soon as it is filled.\n"
    "Please refund it.\n\nAda",
)
EXPENSIVE_REFUND = ReadyMail(
    "expensive",
    "Expensive refund",
    GRACE,
    "Wrong laptop",
    "Hello,\n\nyou sent me the wrong laptop with order W1004. I would like my money back.\n\n"
    "Kind regards\nGrace",
)
READY_MAILS = (
    SMALL_REFUND,
    EXPENSIVE_REFUND,
    ReadyMail(
        "foreign",
        "Someone else's order",
        MALLORY,
        "Refund of W1004",
        "Hi,\n\nI bought the laptop of order W1004. It is broken, please refund it to me.\n\nMallory",
    ),
    ReadyMail(
        "forged",
        "Forged sender",
        ADA,
        "Order W1002",
        "Hello,\n\nplease refund the mugs of my order W1002.\n\nAda",
        aligned=False,
    ),
    ReadyMail(
        "angry",
        "Angry",
        GRACE,
        "This is ridiculous!!!",
        "This is the THIRD time that I write. I am done with machines.\n"
        "Let me talk to a human being, now!\n\nGrace",
    ),
    ReadyMail(
        "german",
        "German",
        JUERGEN,
        "Wasserkocher kaputt",
        "Guten Tag,\n\nder Wasserkocher aus meiner Bestellung W1006 ist leider kaputt.\n"
        "Ich möchte bitte mein Geld zurück.\n\nJürgen",
    ),
    ReadyMail(
        "no_number",
        "No order number",
        GRACE,
        "Headphones",
        "Hello,\n\nmy headphones stopped working after two days. Can I have a refund, please?\n\nGrace",
    ),
    ReadyMail("nonsense", "Nonsense", ADA, "asdf", "purple monkey dishwasher 42 lol"),
)


@dataclass(frozen=True, slots=True)
class _Sale:
    """An order, told by its age in days. `items` are (name, quantity, unit price)."""

    order_id: str
    customer: str
    placed_days_ago: int
    delivered_days_ago: int | None
    status: str
    currency: str
    items: tuple[tuple[str, int, str], ...]
    payments: tuple[tuple[str, str], ...]


_SALES = (
    _Sale("W1001", ADA, 9, 5, "delivered", "USD", (("Kettle", 1, "49.99"),), (("card", "49.99"),)),
    _Sale(
        "W1002",
        ADA,
        14,
        10,
        "delivered",
        "USD",
        (("Coffee mug", 2, "12.50"), ("Tea tin", 1, "8.90")),
        (("card", "33.90"),),
    ),
    _Sale(
        "W1003", ADA, 70, 64, "delivered", "USD", (("Raincoat", 1, "79.00"),), (("card", "79.00"),)
    ),
    _Sale(
        "W1004",
        GRACE,
        8,
        4,
        "delivered",
        "USD",
        (("Laptop", 1, "1499.00"),),
        (("card", "1499.00"),),
    ),
    _Sale(
        "W1005",
        GRACE,
        6,
        2,
        "delivered",
        "USD",
        (("Headphones", 1, "89.00"),),
        (("card", "89.00"),),
    ),
    _Sale(
        "W1006",
        JUERGEN,
        11,
        7,
        "delivered",
        "EUR",
        (("Wasserkocher", 1, "59.90"),),
        (("card", "59.90"),),
    ),
    _Sale(
        "W1007", JUERGEN, 3, None, "shipped", "EUR", (("Zelt", 1, "249.00"),), (("card", "249.00"),)
    ),
    _Sale(
        "W1008", ADA, 1, None, "pending", "USD", (("Desk lamp", 1, "34.50"),), (("card", "34.50"),)
    ),
    _Sale("W1009", GRACE, 20, None, "cancelled", "USD", (("Skateboard", 1, "65.00"),), ()),
    _Sale(
        "W1010",
        GRACE,
        12,
        8,
        "delivered",
        "USD",
        (("Camera", 1, "640.00"), ("Lens", 1, "480.00")),
        (("card", "1120.00"),),
    ),
    _Sale(
        "W1011",
        ADA,
        10,
        6,
        "delivered",
        "JPY",
        (("Fountain pen", 1, "4800"),),
        (("card", "4800"),),
    ),
    _Sale(
        "W1012",
        JUERGEN,
        15,
        11,
        "delivered",
        "EUR",
        (("Rucksack", 1, "120.00"), ("Trinkflasche", 2, "15.00")),
        (("gift_card", "50.00"), ("card", "100.00")),
    ),
)


def orders_file(now: datetime) -> str:
    """Return the shop's orders as JSON lines for `flask orders import`, with dates before `now`."""
    return "".join(json.dumps(record) + "\n" for record in _records(now))


def _records(now: datetime) -> Iterable[dict[str, object]]:
    for sale in _SALES:
        name, _, address = sale.customer.rstrip(">").partition(" <")
        delivered = sale.delivered_days_ago
        yield {
            "order_id": sale.order_id,
            "customer": {"email": address, "name": name},
            "currency": sale.currency,
            "placed_at": _days_before(now, sale.placed_days_ago),
            "delivered_at": None if delivered is None else _days_before(now, delivered),
            "status": sale.status,
            "items": [
                {"item_id": str(number), "name": item, "quantity": quantity, "unit_price": price}
                for number, (item, quantity, price) in enumerate(sale.items, start=1)
            ],
            "payments": [
                {
                    "payment_id": f"pay_{sale.order_id}_{number}",
                    "method": method,
                    "amount": amount,
                }
                for number, (method, amount) in enumerate(sale.payments, start=1)
            ],
        }


def _days_before(now: datetime, days: int) -> str:
    return (now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
