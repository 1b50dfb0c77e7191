"""A gateway that may forget what it paid is asked once, until a person has looked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from mailagent import services
from mailagent.adapters.woocommerce.client import WooCommerceClient
from mailagent.adapters.woocommerce.gateway import WooCommerceGateway
from mailagent.demo.fakes.http_server import Answer, LineCut
from mailagent.domain.refunds.payment import PaymentOutcome, RefundRequest
from mailagent.domain.text import NeedsOperatorError
from mailagent.store.operations import circuit_breakers
from tests.cast import order
from tests.cli.commands import flask
from tests.harness import Harness, pass_time
from tests.platforms import woocommerce_server
from tests.platforms.woocommerce_server import TOKEN, Create, WooCommerceServer
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases


@pytest.fixture
def store() -> Iterator[WooCommerceServer]:
    server = WooCommerceServer()
    server.stock(order())
    yield server
    server.stop()


@pytest.fixture
def refund_id(shop: Harness, store: WooCommerceServer) -> str:
    """An approved refund of a payment that WooCommerce took."""
    gateway = WooCommerceGateway(WooCommerceClient(store.url, TOKEN))
    shop.live = replace(shop.live, gateway=gateway)
    services.bind(shop.live)
    paid = {"payment_id": store.payment_id("W1001"), "method": "card", "amount": "49.99"}
    shop.stock(order(payments=[paid]))
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    return shop.refunds()[0].refund_id


def pay_later(shop: Harness, refund_id: str) -> str:
    pass_time(shop, minutes=6)
    with shop.live.database.transaction() as connection:
        circuit_breakers.give_another_chance(connection, shop.live.now())
    return str(pay(refund_id)["status"])


def paid_and_forgotten(store: WooCommerceServer, create: Create) -> Answer:
    """The plugin paid, its answer was lost, and WooCommerce deleted the refund."""
    create()
    (made,) = store.moved()
    store.delete(store.numbered("W1001"), made)
    raise LineCut


def test_what_may_have_been_paid_is_not_asked_for_again_before_a_person_has_looked(
    shop: Harness, store: WooCommerceServer, refund_id: str
) -> None:
    store.refund_faults.append(lambda create: paid_and_forgotten(store, create))
    assert pay(refund_id)["status"] == "approved"
    assert pay(refund_id)["status"] == "approved"  # it may be under way
    for _ in range(2):  # the sweep runs a refund again, too
        with pytest.raises(NeedsOperatorError, match="look at the payment provider"):
            pay_later(shop, refund_id)
    assert store.moved() == []
    assert flask(shop, "refunds", "ask-again", refund_id).exit_code == 0
    assert flask(shop, "refunds", "ask-again", refund_id).exit_code == 1
    assert pay_later(shop, refund_id) == "paid"
    assert len(store.moved()) == 1


@pytest.mark.parametrize(("seconds", "status"), [(240, 1), (301, 0)])
def test_a_person_lets_it_be_asked_again_only_once_no_call_is_under_way(
    shop: Harness, store: WooCommerceServer, refund_id: str, seconds: int, status: int
) -> None:
    store.refund_faults.append(woocommerce_server.lost_before)
    assert pay(refund_id)["status"] == "approved"
    pass_time(shop, seconds=seconds)
    told = flask(shop, "refunds", "ask-again", refund_id)
    assert (told.exit_code, "look again at" in told.output) == (status, status == 1)
    (row,) = shop.rows("SELECT asking_since FROM refund_payments")
    assert (row.asking_since is None) is (status == 0)


def test_a_plugin_that_failed_is_not_asked_again_by_itself(
    shop: Harness, store: WooCommerceServer, refund_id: str
) -> None:
    store.plugin_failure = "time-out"
    with pytest.raises(NeedsOperatorError, match="plugin"):
        pay(refund_id)
    store.plugin_failure = None
    with pytest.raises(NeedsOperatorError, match="look at the payment provider"):
        pay_later(shop, refund_id)
    assert store.moved() == []


@pytest.mark.parametrize("fault", ["limited", "away"])
def test_a_call_that_certainly_did_nothing_is_made_again(
    shop: Harness, store: WooCommerceServer, refund_id: str, fault: str
) -> None:
    if fault == "limited":
        store.refund_faults.append(woocommerce_server.limited)
        assert pay(refund_id)["status"] == "approved"
    else:
        gone = WooCommerceServer()
        gone.stop()
        gateway = WooCommerceGateway(WooCommerceClient(gone.url, TOKEN))
        services.bind(replace(shop.live, gateway=gateway))
        assert pay(refund_id)["status"] == "approved"
        services.bind(shop.live)
    assert shop.rows("SELECT asking_since FROM refund_payments")[0].asking_since is None
    assert pay_later(shop, refund_id) == "paid"
    assert len(store.moved()) == 1


def test_a_refund_that_was_made_is_found_although_its_answer_was_lost(
    shop: Harness, store: WooCommerceServer, refund_id: str
) -> None:
    store.refund_faults.append(woocommerce_server.lost_after)
    assert pay(refund_id)["status"] == "approved"
    assert pay_later(shop, refund_id) == "paid"
    assert len(store.moved()) == 1


class Together(WooCommerceGateway):
    """Two processes: each looks before either asks, and no lock is between them."""

    def __init__(self, client: WooCommerceClient) -> None:
        super().__init__(client)
        self.barrier = Barrier(2)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        found = super().look_up(request)
        self.barrier.wait(10)
        return found

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        return WooCommerceGateway(self._client)._ask(request)


def test_of_two_workers_at_the_same_moment_one_asks(
    shop: Harness, store: WooCommerceServer, refund_id: str
) -> None:
    store.refund_faults.append(woocommerce_server.limited)
    pay(refund_id)  # the intent stands written
    shop.live = replace(shop.live, gateway=Together(WooCommerceClient(store.url, TOKEN)))
    services.bind(shop.live)
    with ThreadPoolExecutor(2) as pool:
        told = [each["status"] for each in pool.map(pay, [refund_id] * 2)]
    assert "paid" in told
    assert sum(each.method == "POST" for each in store.requests) == 2  # with the limited one
    assert len(store.moved()) == 1
