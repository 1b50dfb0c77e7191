"""Refunds through the platform that took the payment, from the customer's mail to the receipt: once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from mailagent.domain.refunds.order import Order
from tests.cast import ADA, order
from tests.cli.commands import flask
from tests.harness import Harness, open_shop, pass_time, running, wait_until
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
