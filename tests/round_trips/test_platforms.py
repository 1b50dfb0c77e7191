"""Refunds through the platform that took the payment, from the customer's mail to the receipt: once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from mailagent import services
from mailagent.adapters.platforms.records import key_in
from mailagent.adapters.shopify import queries
from mailagent.adapters.shopify import source as shopify
from mailagent.adapters.woocommerce import source as woo
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.workflows.steps import order_source
from tests.cast import ADA, GRACE, OLGA, TESS, order
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
from tests.platforms.shopify_server import ShopifyServer, bag
from tests.platforms.woocommerce_server import WooCommerceServer
from tests.round_trips.approvals import approval_path, decide
from tests.round_trips.replays import runs_of

BROKEN = "The kettle of order W1001 arrived broken. I want my money back."


class Platform(Protocol):
    url: str
    faults: list[Answer]
    endless: bool
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
    with open_shop(tmp_path, database_url, settings) as harness, running(harness, 1):
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


@pytest.mark.one_way("platform")
@pytest.mark.both_databases
@pytest.mark.parametrize("more", [-1, 40], ids=["pages that loop", "too long a page"])
def test_a_list_without_an_end_is_told_and_pays_once(
    shop: Harness, platform: Platform, more: int
) -> None:
    size = shopify.ORDERS_A_PAGE if isinstance(platform, ShopifyServer) else woo.ORDERS_A_PAGE
    platform.endless = True
    platform.stock(*(order(f"M{number}") for number in range(size + more)))
    ask_for_refund(shop, platform)
    shop.wait_for_refund("paid")
    assert len(platform.moved()) == 1
    assert len(shop.rows("SELECT 1 FROM orders")) <= size + 1
    wait_until(lambda: len(shop.mails_to(ADA)) == 2, 30, "the answer and the receipt")
    assert any("a page of a customer's orders" in each.text for each in shop.wait_for_mails(OLGA))


@pytest.mark.parametrize("platform", ["shopify"], indirect=True)
def test_scopes_that_the_token_lacks_are_named(shop: Harness, platform: Any) -> None:
    assert "does not allow" not in flask(shop, "check").output
    platform.scopes = ["read_orders", "read_locations"]
    told = flask(shop, "check")
    assert (
        "problem: ORDER_SOURCE_TOKEN: Shopify does not allow it read_fulfillments, write_orders:"
        in told.output
    )
    assert told.exit_code == 1


@pytest.mark.parametrize("platform", ["woocommerce"], indirect=True)
def test_a_key_that_woocommerce_refuses_is_a_problem(shop: Harness, platform: Any) -> None:
    platform.faults = [woocommerce_server.error(401, "woocommerce_rest_cannot_view")]
    assert "check our token" in flask(shop, "check").output


@pytest.mark.one_way("platform")
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
    pass_time(shop, minutes=6)
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


def test_what_the_shop_took_itself_is_given_back_by_a_person(
    shop: Harness, platform: Platform
) -> None:
    """The platform would record a refund of a bank transfer, and the customer would get nothing."""
    method = "Bank Deposit" if isinstance(platform, ShopifyServer) else "bacs"
    platform.stock(order(payments=[{"payment_id": "p", "method": method, "amount": "49.99"}]))
    ask_for_refund(shop, platform)
    open_one = "SELECT idempotency_key FROM ledger_settlements WHERE state = 'open'"
    wait_until(lambda: bool(shop.rows(open_one)), 30, "the settlement")
    assert shop.refunds()[0].status == "approved"
    assert not any("We have refunded" in mail.text for mail in shop.mails_to(ADA))
    (row,) = shop.rows(open_one)
    path = f"/ops/settlements/{row.idempotency_key}"
    post_form(shop.log_in(OLGA), path, "/ops/settlements", settle="yes", reference="SEPA 17")
    assert shop.wait_for_refund("paid").gateway == "ledger"
    wait_until(lambda: "SEPA 17" in shop.mails_to(ADA)[-1].text, 20, "the receipt")
    assert made_by_us(platform) == []


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


@pytest.mark.both_databases
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


@pytest.mark.one_way("platform")
@pytest.mark.both_databases
@pytest.mark.parametrize("reasons", [{RefundReason.DAMAGED}, set()], ids=["restocked", "not"])
def test_goods_that_came_back_are_restocked_as_the_policy_says(
    shop: Harness, platform: Any, reasons: set[RefundReason]
) -> None:
    rules = ReturnFirst(
        frozenset({RefundReason.DAMAGED}), "Send it back.", restock_reasons=frozenset(reasons)
    )
    bring_back(shop, platform, rules)
    shop.wait_for_refund("paid")
    assert len(platform.moved()) == 1
    assert in_stock(platform) == ({"K1": 1} if reasons else {})


def bring_back(
    shop: Harness,
    platform: Any,
    rules: ReturnFirst,
    before: Callable[[], object] = lambda: None,
) -> None:
    """Ask for the kettle's refund, and bring it back; something happens `before` a person says that it came."""
    shop.live = replace(shop.live, policy=Policy(return_first=rules))
    services.bind(shop.live)
    moved = platform.moved()
    ask_for_refund(shop, platform)
    shop.wait_for_mails(ADA, 2)
    assert platform.moved() == moved
    before()
    tick(shop)


@pytest.mark.both_databases
@pytest.mark.parametrize("platform", ["shopify"], indirect=True)
@pytest.mark.parametrize("by", ["warehouse", "our refund"])
def test_the_last_item_is_paid_although_the_shop_lists_the_whole_order_again(
    shop: Harness, platform: Any, by: str
) -> None:
    """Shopify's record has no units left then, so we read those that were removed before, too."""
    platform.stock(order(items=[KETTLES, LAMP], payments=[PAYMENT]))
    kettle, lamp = platform.named("W1001")["lineItems"].all
    lamp["currentQuantity"] = 0
    platform.refund_in_admin("W1001", 10_00)

    def restock() -> None:
        kettle["currentQuantity"] = 0

    reasons = frozenset({RefundReason.DAMAGED})
    ours = reasons if by == "our refund" else frozenset()
    rules = ReturnFirst(reasons, "Send it back.", restock_reasons=ours)
    bring_back(shop, platform, rules, restock if not ours else lambda: None)
    shop.wait_for_refund("paid")
    if ours:
        pass_time(shop, hours=1)
    assert order_source.refresh("W1001") is Freshness.FRESH
    assert (kettle["currentQuantity"], len(platform.moved())) == (0, 2)
    (line,) = shop.rows("SELECT item_id FROM order_lines")
    assert line.item_id == "K1"


# --- between the decision and the payment ---------------------------------------------------------


def once_it_is_approved(shop: Harness, platform: Any, change: Callable[[], None]) -> None:
    """Make a change when the platform is asked for the first time after the refund was approved."""
    changed: list[str] = []

    def before(asked: str) -> None:
        approved = "SELECT 1 FROM refunds WHERE status = 'approved'"
        if not changed and shop.rows(approved):
            changed.append(asked)
            change()

    platform.before = before


def made_by_us(platform: Any) -> list[str]:
    """Return the keys of the refunds that the platform made for us."""
    if isinstance(platform, ShopifyServer):
        return [key for each in platform.refunds if (key := key_in(each["note"]))]
    made = [each for found in platform.refunds.values() for each in found]
    return [key for each in made if (key := key_in(each["reason"]))]


def refunds_thirty(platform: Any) -> None:
    if isinstance(platform, ShopifyServer):
        platform.refund_in_admin("W1001", 30_00)
    else:
        platform.refund_in_admin("W1001", "30.00")


def has_less_paid(platform: Any) -> None:
    if isinstance(platform, ShopifyServer):
        platform.named("W1001")["transactions"].all[0]["amountSet"] = bag(9_99, "USD")
    else:
        platform.numbered("W1001")["total"] = "9.99"


def is_negative(platform: Any) -> None:
    if isinstance(platform, ShopifyServer):
        platform.named("W1001")["transactions"].all[0]["amountSet"] = bag(-49_99, "USD")
    else:
        platform.numbered("W1001")["total"] = "-49.99"


def is_cancelled(platform: Any) -> None:
    if isinstance(platform, ShopifyServer):
        platform.named("W1001")["cancelledAt"] = "2026-11-20T12:00:00Z"
    else:
        platform.numbered("W1001")["status"] = "cancelled"


def is_anothers(platform: Any) -> None:
    if isinstance(platform, ShopifyServer):
        platform.named("W1001")["email"] = GRACE
    else:
        platform.numbered("W1001")["billing"]["email"] = GRACE


def is_in_euros(platform: Any) -> None:
    if isinstance(platform, ShopifyServer):
        platform.named("W1001")["presentmentCurrencyCode"] = "EUR"
    else:
        platform.numbered("W1001")["currency"] = "EUR"


def is_gone(platform: Any) -> None:
    platform.orders.clear()


@pytest.mark.one_way("platform")
@pytest.mark.parametrize(
    "change",
    [
        refunds_thirty, has_less_paid, is_negative, is_cancelled, is_anothers, is_in_euros, is_gone,
    ],
)  # fmt: skip
def test_an_order_that_changed_before_the_payment_pays_nothing(
    shop: Harness, platform: Platform, change: Callable[[Any], None]
) -> None:
    """The team has it then, or operators are told of a record that cannot be true."""
    once_it_is_approved(shop, platform, lambda: change(platform))
    ask_for_refund(shop, platform)
    seen = (
        "SELECT 1 FROM refunds WHERE status = 'failed'"
        " UNION SELECT 1 FROM audit WHERE subject = 'order_records'"
    )
    wait_until(lambda: bool(shop.rows(seen)), 30, "people to be told")
    assert made_by_us(platform) == []
    assert shop.refunds()[0].status in ("failed", "approved")


@pytest.mark.one_way("platform")
@pytest.mark.parametrize(
    "answer",
    [
        Answer(503),
        Answer(429, None, {"Retry-After": "1"}),
        Answer(200, b'{"data": {"order": {"id": "gid'),
        Answer(200, b"[]"),
    ],
    ids=["away", "limited", "half", "nothing"],
)
def test_a_platform_that_stumbles_before_the_payment_pays_once(
    shop: Harness, platform: Platform, answer: Answer
) -> None:
    once_it_is_approved(shop, platform, lambda: platform.faults.append(answer))
    ask_for_refund(shop, platform)
    shop.wait_for_refund("paid")
    assert len(made_by_us(platform)) == len(platform.moved()) == 1
