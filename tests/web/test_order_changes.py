"""The webhooks of shop platforms: an order that has changed there is looked up again."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from mailagent.domain.orders.freshness import FRESH_FOR
from mailagent.workflows.steps.maintenance.tasks import see_to
from mailagent.workflows.steps.order_source import look_up_order
from tests.cast import order
from tests.harness import Harness, open_shop
from tests.workflows.cancelling import with_source
from tests.workflows.orders_of_tasks import REFUNDED, ask, away, look_ups, pass_minutes

NEW, OLD = "a-new-secret-for-tests", "an-old-secret-for-tests"


@dataclass
class Caller:
    """A platform that posts to a shop."""

    shop: Harness
    name: str
    signature: str
    topic: str
    changed: str
    number: str

    def post(
        self,
        body: bytes,
        *,
        secret: str = NEW,
        topic: str | None = None,
        signature: str | None = None,
    ) -> TestResponse:
        made = b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
        headers = {self.signature: made if signature is None else signature}
        headers[self.topic] = topic or self.changed
        path = f"/webhooks/orders/{self.name}"
        return self.shop.client.post(path, data=body, headers=headers)

    def about(self, order_id: str, **more: Any) -> bytes:
        return json.dumps({self.number: order_id, "total": "1.00", **more}).encode()

    def seen_at(self) -> datetime:
        (row,) = self.shop.rows("SELECT seen_at FROM orders WHERE order_id = 'W1001'")
        return datetime.fromisoformat(str(row.seen_at))


PLATFORMS = {
    "shopify": ("X-Shopify-Hmac-Sha256", "X-Shopify-Topic", "orders/updated", "name"),
    "woocommerce": ("X-WC-Webhook-Signature", "X-WC-Webhook-Topic", "order.updated", "number"),
}


@pytest.fixture(params=PLATFORMS)
def caller(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Iterator[Caller]:
    settings = {
        "ORDER_SOURCE": request.param,
        "ORDER_SOURCE_URL": "http://127.0.0.1:9",
        "ORDER_SOURCE_TOKEN": "a-token:for-tests",
        "ORDER_SOURCE_WEBHOOK_SECRET": f"{NEW},{OLD}",
    }
    with open_shop(tmp_path, database_url, settings) as shop:
        shop.stock(order())
        yield Caller(shop, request.param, *PLATFORMS[request.param])


@pytest.mark.parametrize("secret", [NEW, OLD])
def test_an_order_that_has_changed_is_not_fresh_any_more(caller: Caller, secret: str) -> None:
    before = caller.seen_at()
    assert caller.post(caller.about("W1001"), secret=secret).text == "noted\n"
    after = caller.seen_at()
    # Not much more: people are told as of when they see the order.
    assert FRESH_FOR - timedelta(minutes=1) < before - after <= FRESH_FOR
    assert look_ups(caller.shop) == 0  # until a reply or a page uses it
    # Again, and with older news: nothing more happens.
    assert caller.post(caller.about("W1001", total="7.00"), secret=secret).status_code == 200
    assert (caller.seen_at() - after).total_seconds() < 60


def test_a_task_whose_order_has_changed_has_it_looked_up_once_a_minute(caller: Caller) -> None:
    """Also after a look-up that failed, and after one that was under way and saved the old order."""
    shop = caller.shop
    source = with_source(shop)
    ask(shop, "W1001")
    source.orders = away
    pass_minutes(shop, 60)
    see_to()
    look_up_order("W1001")
    before = look_ups(shop)
    source.orders = lambda _: order()
    for minute in range(1, 3):
        for _ in range(3):
            assert caller.post(caller.about("W1001")).text == "noted\n"
        assert look_ups(shop) == before + minute
        look_up_order("W1001")
        pass_minutes(shop, 1)
    source.orders = lambda _: order(status="cancelled", payments=[REFUNDED])
    look_up_order("W1001")
    assert see_to() == 1


def test_what_it_says_of_the_order_is_not_taken(caller: Caller) -> None:
    before = caller.shop.rows("SELECT paid_minor, version FROM orders")
    told = caller.post(caller.about("W1001", status="refunded", total="0.00"))
    assert told.text == "noted\n"
    assert caller.shop.rows("SELECT paid_minor, version FROM orders") == before


@pytest.mark.parametrize("signature", ["", "short", "A" * 43 + "=", "ß" * 44])
def test_a_wrong_signature_changes_nothing(caller: Caller, signature: str) -> None:
    before = caller.seen_at()
    assert caller.post(caller.about("W1001"), signature=signature).status_code == 400
    assert caller.post(caller.about("W1001"), secret="another-secret").status_code == 400
    assert caller.seen_at() == before


def test_a_body_that_was_changed_on_the_way_is_refused(caller: Caller) -> None:
    body = caller.about("W1001")
    made = b64encode(hmac.digest(NEW.encode(), body, "sha256")).decode()
    assert caller.post(body + b" ", signature=made).status_code == 400


@pytest.mark.parametrize("topic", ["products/update", "customer.updated", ""])
def test_other_news_is_thanked_for(caller: Caller, topic: str) -> None:
    before = caller.seen_at()
    assert caller.post(b"{}", topic=topic or "x").text == "not about an order\n"
    assert caller.seen_at() == before


def test_an_order_that_we_do_not_have_is_thanked_for(caller: Caller) -> None:
    assert caller.post(caller.about("W9999")).status_code == 200


@pytest.mark.parametrize(
    ("topic", "body"),
    [
        ("delete", {"id": 17}),
        ("deleted", {"id": 17}),
        ("edited", {"order_edit": {"id": 7, "order_id": 17, "line_items": {"additions": []}}}),
        ("risk_assessment_changed", {"order_id": 17}),
    ],
)
def test_an_order_of_which_only_the_platforms_id_is_told_is_thanked_for(
    caller: Caller, topic: str, body: dict[str, Any]
) -> None:
    before = caller.seen_at()
    topic = caller.changed.replace("updated", topic)
    assert caller.post(json.dumps(body).encode(), topic=topic).text == "not about an order\n"
    assert caller.seen_at() == before


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"[" * 100_000])
def test_what_is_no_order_is_refused(caller: Caller, body: bytes) -> None:
    assert caller.post(body).status_code == 400


def test_only_woocommerce_tries_the_address_first(caller: Caller) -> None:
    answer = caller.shop.client.post(f"/webhooks/orders/{caller.name}", data=b"webhook_id=17")
    assert answer.status_code == (200 if caller.name == "woocommerce" else 400)


def test_without_a_secret_there_is_no_such_route(shop: Harness) -> None:
    assert not any("/orders/shopify" in rule.rule for rule in shop.app.url_map.iter_rules())
