"""A shop that is paid through Stripe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from mailagent.store.refunds import external_refunds
from mailagent.workflows.steps.refund import payment
from tests.cast import order
from tests.harness import Harness, open_shop
from tests.stripe_server import StripeServer, event, sign
from tests.workflows.paying import propose

NEW, OLD = "whsec_new", "whsec_old"
NOON = 1_790_000_000
CARD = {"payment_id": "pi_card", "method": "card", "amount": "49.99"}
pay: Callable[[str], Any] = inspect.unwrap(payment.pay_refund)


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    server = StripeServer({"pi_card": 4999, "pi_other": 4999})
    yield server
    server.stop()


@pytest.fixture
def shop(tmp_path: Path, database_url: str, stripe: StripeServer) -> Iterator[Harness]:
    """A shop with Ada's kettle, paid through Stripe; its workflows do not run."""
    settings = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
        "STRIPE_API_BASE": stripe.url,
        "STRIPE_WEBHOOK_SECRET": f"{NEW},{OLD}",
    }
    with open_shop(tmp_path, database_url, settings) as harness:
        harness.stock(order(payments=[CARD]))
        yield harness


def post(shop: Harness, body: bytes, secret: str = NEW) -> TestResponse:
    headers = {"Stripe-Signature": sign(body, secret)}
    return shop.client.post("/webhooks/stripe", data=body, headers=headers)


def say(shop: Harness, kind: str, content: dict[str, Any], event_id: str, at: int = NOON) -> str:
    """Post an event, which must be thanked for, and return what came of it."""
    response = post(shop, event(kind, content, event_id, at))
    assert response.status_code == 200, response.text
    found = shop.rows("SELECT outcome FROM gateway_events WHERE event_id = :id", id=event_id)
    return str(found[0].outcome)


def dispute(status: str, **changes: Any) -> dict[str, Any]:
    return {"id": "dp_1", "payment_intent": "pi_card", "charge": "ch_9", "status": status} | changes


def approved(shop: Harness) -> str:
    assert propose(shop)["outcome"] == "approved"
    return shop.refunds()[0].refund_id


def paid(shop: Harness) -> str:
    refund_id = approved(shop)
    assert pay(refund_id)["status"] == "paid"
    return refund_id


def elsewhere(shop: Harness, order_id: str = "W1001") -> int:
    with shop.live.database.snapshot() as connection:
        return external_refunds.given_back_minor(connection, order_id)


def held(shop: Harness) -> int:
    return int(shop.rows("SELECT held_minor FROM orders WHERE order_id = 'W1001'")[0].held_minor)
