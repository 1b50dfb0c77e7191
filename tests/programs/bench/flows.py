"""What customers write in the benchmarks, each about an order of their own, as signed requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mailagent.demo.fakes.mailboxes import MailContent
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from mailagent.domain.refunds.order import Order
from mailagent.store.database import open_database
from mailagent.store.refunds import order_import
from tests.cast import big_order, order
from tests.harness import letter
from tests.programs.bench.clients import Post


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of mail. `mails_back`: how many mails of ours are sent for each; `mails_before`: how many of
    them before a manager has decided, if one has to. `stock`: takes the orders, in place of the database."""

    name: str
    text: str
    mails_back: int
    buy: Callable[..., Order] = order
    mails_before: int | None = None
    stock: Callable[[Sequence[Order]], None] | None = None


QUESTION = Flow(
    "question about an order",
    "Hello,\n\nwhat is the status of my order {order_id}? I would like to know whether it has"
    " arrived.\n\nKind regards\nAda Example\n",
    mails_back=1,
)
REFUND = Flow(
    "small refund",
    "Hello,\n\nmy kettle from order {order_id} arrived broken. I want my money back, please.\n\n"
    "Kind regards\nAda Example\n",
    mails_back=2,
)
# To the customer that it was passed on, and to the manager; then the receipt.
APPROVED = Flow(
    "approved refund",
    "Hello,\n\nthe desk from order {order_id} arrived broken. I want my money back, please.\n\n"
    "Kind regards\nAda Example\n",
    mails_back=3,
    buy=big_order,
    mails_before=2,
)


# Above those of a stock of a million mails.
_order_numbers = itertools.count(700001)


def prepare(flow: Flow, count: int, database_url: str, key: WebhookKey) -> list[Post]:
    """Stock `count` orders, each of a customer of its own, and return a mail about each."""
    stocked = [new_order(flow.buy) for _ in range(count)]
    if flow.stock is None:
        _import(stocked, database_url)
    else:
        flow.stock(stocked)
    return [sign(letter_about(flow, each), key) for each in stocked]


def _import(stocked: Sequence[Order], database_url: str) -> None:
    database = open_database(database_url)
    with database.transaction() as connection:
        for each in stocked:
            order_import.save(connection, each, datetime.now(UTC))
    database.close()


def new_order(buy: Callable[..., Order] = order) -> Order:
    """Return an order of a customer of its own."""
    number = next(_order_numbers)
    # Delivered a while before now, whenever that is: the return window must be open.
    placed_at = datetime.now(UTC) - timedelta(days=12)
    return buy(
        f"W{number}",
        customer={"email": f"ada.{number}@example.com", "name": "Ada Example"},
        placed_at=placed_at.isoformat(),
        delivered_at=(placed_at + timedelta(days=2)).isoformat(),
    )


def letter_about(flow: Flow, about: Order, **changes: Any) -> MailContent:
    """Return a mail of this kind about an order, from whoever has it."""
    text = flow.text.format(order_id=about.order_id)
    return letter(text, from_address=about.customer_email, **changes)


def sign(written: MailContent, key: WebhookKey) -> Post:
    """Return a mail as SendGrid posts it."""
    body = build_body(written)
    return Post(body, {"Content-Type": CONTENT_TYPE, **key.sign(body)})
