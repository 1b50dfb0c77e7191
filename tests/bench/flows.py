"""What customers write in the benchmarks, each about an order of their own, as signed requests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mailagent.demo.inbound_parse import CONTENT_TYPE, build_body
from mailagent.demo.webhook_key import WebhookKey
from mailagent.domain.order import Order
from mailagent.store import orders
from mailagent.store.database import open_database
from tests.bench.posting import Post
from tests.cast import order
from tests.stage import letter


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of mail. `mails_back`: how many mails of ours are sent for each."""

    name: str
    text: str
    mails_back: int


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


_order_numbers = itertools.count(10001)


def prepare(flow: Flow, count: int, database_url: str, key: WebhookKey) -> list[Post]:
    """Stock `count` orders, each of a customer of its own, and return a mail about each."""
    stocked = [_order(next(_order_numbers)) for _ in range(count)]
    database = open_database(database_url)
    with database.transaction() as connection:
        for each in stocked:
            orders.save(connection, each, datetime.now(UTC))
    database.close()
    return [_post(flow, each, key) for each in stocked]


def _order(number: int) -> Order:
    # Delivered a while before now, whenever that is: the return window must be open.
    placed_at = datetime.now(UTC) - timedelta(days=12)
    return order(
        f"W{number}",
        customer={"email": f"ada.{number}@example.com", "name": "Ada Example"},
        placed_at=placed_at.isoformat(),
        delivered_at=(placed_at + timedelta(days=2)).isoformat(),
    )


def _post(flow: Flow, about: Order, key: WebhookKey) -> Post:
    text = flow.text.format(order_id=about.order_id)
    body = build_body(letter(text, from_address=about.customer_email))
    return Post(body, {"Content-Type": CONTENT_TYPE, **key.sign(body)})
