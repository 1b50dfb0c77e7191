"""Refunds through the platform that took the payment, from the customer's mail to the receipt: once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from mailagent import services
from mailagent.adapters.shopify import queries
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from tests.cast import ADA, TESS, order
from tests.cli.commands import flask
from tests.harness import (
    Harness,
    open_shop,
    pass_time,
    post_form,
    running,
    wait_until,
)
from tests.platforms import shopify_server, woocommerce_server
from tests.platforms.shopify_server import ShopifyServer
from tests.platforms.woocommerce_server import WooCommerceServer
from tests.round_trips.approvals import approval_path, decide
from tests.round_trips.replays import runs_of

BROKEN = "The kettle of order W1001 arrived broken. I want my money back."


class Platform(Protocol):
    url: str
    refund_faults: list[Any]

    def stock(self, *orders: Order) -> None: ...
    def moved(self) -> list[dict[str, Any]]: ...
    def stop(self) -> None: ...


@pytest.fixture(params=["shopify", "woocommerce"])
def platform(request: pytest.FixtureRequest) -> Iterator[Platform]:
    server = ShopifyServer() if request.param == "shopify" else WooCommerceServer()
    server.stock(order())
    yield server
    server.stop()


@pytest.fixture
def shop(tmp_path: Path, database_url: str, platform: Platform) -> Iterator[Harness]:
    if isinstance(platform, ShopifyServer):
        name, token = "shopify", shopify_server.TOKEN
    else:
        name, token = "woocommerce", woocommerce_server.TOKEN
    settings = {
        "ORDER_SOURCE": name,
        "ORDER_SOURCE_URL": platform.url,
        "ORDER_SOURCE_TOKEN": token,
        "PAYMENT_GATEWAY": name,
    }
    with open_shop(tmp_path, database_url, settings) as harness, running(harness):
        yield harness  # its orders are the platform's


def ask_for_refund(shop: Harness, platform: Platform) -> None:
    """Write, and let a manager approve: WooCommerce does not know that the kettle arrived."""
    shop.write(BROKEN)
    if isinstance(platform, WooCommerceServer):
        shop.wait_for_refund("awaiting_approval")
        decide(shop, approval_path(shop), "approve")


def test_a_refund_is_paid_by_the_platform_and_receipted(shop: Harness, platform: Platform) -> None:
    ask_for_refund(shop, platform)
    refund = shop.wait_for_refund("paid")
    (moved,) = platform.moved()
    number = str(moved["id"]).rpartition("/")[2]
    assert refund.gateway_reference == f"{refund.gateway}:{number}"
    wait_until(lambda: any(number in mail.text for mail in shop.mails_to(ADA)), 20, "the receipt")
    assert not shop.rows("SELECT 1 FROM ledger_entries")


@pytest.mark.parametrize("fault", ["lost_before", "lost_after", "made_but_500"])
def test_a_lost_answer_does_not_pay_twice(shop: Harness, platform: Platform, fault: str) -> None:
    played = shopify_server if isinstance(platform, ShopifyServer) else woocommerce_server
    platform.refund_faults.append(getattr(played, fault))
    ask_for_refund(shop, platform)
    if fault == "lost_before" and isinstance(platform, WooCommerceServer):
        a_person_looks_and_lets_it_be_asked_again(shop)
    shop.wait_for_refund("paid")
    assert len(platform.moved()) == 1


def a_person_looks_and_lets_it_be_asked_again(shop: Harness) -> None:
    """WooCommerce has no refund, and that does not say that none was paid."""
    asked = "SELECT 1 FROM refund_payments WHERE asking_since IS NOT NULL AND attempts > 0"
    wait_until(lambda: bool(shop.rows(asked)), 30, "the call to be lost")
    pass_time(shop, minutes=2)
    (run_id,) = runs_of(shop, "refund")
    client = shop.live.workflow_client

    def has_failed() -> bool:
        run = client.runs.find_run(run_id)
        return run is not None and run.has_failed

    wait_until(has_failed, 30, "the run to ask for a person")
    (refund,) = shop.refunds()
    told = flask(shop, "refunds", "ask-again", refund.refund_id)
    assert run_id in told.output, told.output
    client.replays.replay_run(run_id)


# --- items ----------------------------------------------------------------------------------------

KETTLES = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
LAMP = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "10.00"}
PAYMENT = {"payment_id": "p", "method": "card", "amount": "59.99"}


def tick(shop: Harness) -> None:
    """Have Tess say that the one task there is, is done."""
    open_task = "SELECT remedy_id FROM remedies WHERE status IN ('task', 'awaiting_goods')"
    wait_until(lambda: bool(shop.rows(open_task)), 20, "the task")
    (row,) = shop.rows(open_task)
    post_form(shop.log_in(TESS), f"/ops/tasks/{row.remedy_id}", "/ops", done="yes")


def in_stock(platform: Any) -> dict[str, int]:
    """Return how many units of each item were put in stock again."""
    shopify = isinstance(platform, ShopifyServer)
    return {key[0] if shopify else key: n for key, n in platform.in_stock.items()}


def test_items_are_cancelled_before_their_refund_and_the_order_goes_on(
    shop: Harness, platform: Any
) -> None:
    """By Shopify itself; in WooCommerce by a person, who is told what to do."""
    items = [KETTLES, LAMP]
    platform.stock(order(status="pending", delivered_at=None, items=items, payments=[PAYMENT]))
    shop.write("Please cancel the lamp of order W1001.")
    if isinstance(platform, WooCommerceServer):
        tick(shop)
    shop.wait_for_refund("paid")
    (moved,) = platform.moved()
    assert len(shop.wait_for_mails(ADA, 3)) == 3
    if isinstance(platform, ShopifyServer):
        assert [x["currentQuantity"] for x in platform.named("W1001")["lineItems"].all] == [1, 0]
        assert moved["amountSet"]["presentmentMoney"]["amount"] == "10.00"
        assert in_stock(platform) == {"L1": 1}
    (stored,) = shop.rows("SELECT status FROM orders")
    assert stored.status == "pending"


@pytest.mark.parametrize("platform", ["shopify"], indirect=True)
def test_items_that_shopify_has_sent_meanwhile_are_not_refunded(
    shop: Harness, platform: Any
) -> None:
    sold = order(status="pending", delivered_at=None, items=[KETTLES, LAMP], payments=[PAYMENT])
    platform.stock(sold)

    def ships(query: str) -> None:
        if query == queries.ITEMS:  # the first of a cancellation
            platform.named("W1001")["displayFulfillmentStatus"] = "FULFILLED"

    platform.before = ships
    shop.write("Please cancel the lamp of order W1001.")
    texts = [mail.text for mail in shop.wait_for_mails(ADA, 2)]
    assert "can no longer be cancelled" in texts[1]
    assert (platform.moved(), platform.refunds) == ([], [])


@pytest.mark.parametrize("reasons", [{RefundReason.DAMAGED}, set()], ids=["restocked", "not"])
def test_goods_that_came_back_are_restocked_as_the_policy_says(
    shop: Harness, platform: Any, reasons: set[RefundReason]
) -> None:
    rules = ReturnFirst(
        frozenset({RefundReason.DAMAGED}), "Send it back.", restock_reasons=frozenset(reasons)
    )
    shop.live = replace(shop.live, policy=Policy(return_first=rules))
    services.bind(shop.live)
    ask_for_refund(shop, platform)
    shop.wait_for_mails(ADA, 2)
    assert platform.moved() == []
    tick(shop)
    shop.wait_for_refund("paid")
    assert len(platform.moved()) == 1
    assert in_stock(platform) == ({"K1": 1} if reasons else {})
