"""What every order source must do. A source passes by a fixture `shop`: its system, played over HTTP.

class TestHttp(OrderSourceContract):
    @pytest.fixture
    def shop(self) -> Iterator[PlayedShop]: ...
"""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import pytest

from mailagent.adapters.http import limited
from mailagent.adapters.order_sources.json_client import MOST_BYTES
from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.domain.orders.source import (
    MOST_ORDERS_A_PAGE,
    AddressChanged,
    Cancelled,
    CancelRequest,
    NotSupported,
    OrderSource,
    OutOfTime,
    SourceProblem,
    TooLate,
)
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.remedies.address import NewAddress
from tests.cast import ADA, GRACE, order

# Short, so that a test of the deadline is quick; far above what the played shop needs.
DEADLINE_SECONDS = 2.0
NEW_ADDRESS = NewAddress("12 New Road", "10117", "Berlin")


class PlayedShop(Protocol):
    """The system of a shop, played over HTTP. `faults`: what it answers next, instead of the truth.
    `requests`: what it was asked so far. `page_size`: how many orders a page of its own has at most. `endless`:
    every page has all orders, and says that more follow."""

    url: str
    faults: list[Answer]
    requests: list[Request]
    page_size: int
    endless: bool

    def stock(self, *orders: Order) -> None:
        """Have these orders, in place of those with their numbers."""

    def make(self, url: str | None = None) -> OrderSource:
        """Return the source with our key and DEADLINE_SECONDS; at another URL, if one is given."""

    def be_slow(self, seconds: float) -> None:
        """Wait so long before each answer."""


class OrderSourceContract:
    """Tests that run against each source."""

    def test_a_customers_orders_come_newest_first(self, shop: PlayedShop) -> None:
        older = order("1001")
        newer = replace(order("1002"), placed_at=older.placed_at + timedelta(days=1))
        shop.stock(older, newer, order("1003", customer={"email": GRACE}))
        page = shop.make().find_orders(ADA)
        assert [each.order_id for each in page.orders] == ["1002", "1001"]
        assert {each.customer_email for each in page.orders} == {ADA}
        assert page.problems == ()

    def test_pages_go_on_to_the_last_order(self, shop: PlayedShop) -> None:
        shop.page_size = 2
        shop.stock(*(order(str(1001 + number)) for number in range(5)))
        source, seen, cursor = shop.make(), list[str](), None
        for _ in range(5):
            page = source.find_orders(ADA, cursor)
            seen += [each.order_id for each in page.orders]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert cursor is None
        assert sorted(seen) == ["1001", "1002", "1003", "1004", "1005"]

    def test_a_list_without_an_end_is_read_a_page_at_a_time(self, shop: PlayedShop) -> None:
        shop.endless = True
        shop.stock(*(order(str(1001 + number)) for number in range(MOST_ORDERS_A_PAGE + 10)))
        source = shop.make()
        page = source.find_orders(ADA)
        assert 0 < len(page.orders) <= MOST_ORDERS_A_PAGE
        assert len(shop.requests) <= 1 + len(page.orders)
        assert "a page of a customer's orders has 60" in page.problems[0]
        assert page.next_cursor
        assert source.find_orders(ADA, page.next_cursor).orders == page.orders

    def test_a_customer_without_orders_has_none(self, shop: PlayedShop) -> None:
        page = shop.make().find_orders(ADA)
        assert (page.orders, page.next_cursor) == ((), None)

    def test_an_order_is_the_same_in_a_list_and_alone(self, shop: PlayedShop) -> None:
        shop.stock(order("1001"))
        source = shop.make()
        alone = source.load_order("1001")
        assert alone is not None
        assert source.find_orders(ADA).orders == (alone,)
        assert (alone.order_id, alone.customer_email, alone.paid) == (
            "1001",
            ADA,
            order("1001").paid,
        )

    @pytest.mark.parametrize(
        "order_id", ["9999", "..", ".", "../orders", "a/b?c#d", "%2e%2e", "' OR 1=1", "ß" * 100]
    )
    def test_a_number_that_the_shop_does_not_know_is_no_order(
        self, shop: PlayedShop, order_id: str
    ) -> None:
        shop.stock(order("1001"))
        assert shop.make().load_order(order_id) is None

    def test_every_text_can_be_stored(self, shop: PlayedShop) -> None:
        shop.stock(replace(order("1001"), customer_name="Half an emoji: \ud83d"))
        found = shop.make().load_order("1001")
        assert found is not None
        assert found.customer_name == "Half an emoji: ?"

    def test_the_token_is_sent(self, shop: PlayedShop) -> None:
        shop.make().find_orders(ADA)
        assert shop.requests
        assert all(_key_of(request) for request in shop.requests)

    # --- cancel ---------------------------------------------------------------------------------

    def test_a_pending_order_is_cancelled(self, shop: PlayedShop) -> None:
        shop.stock(order("1001", status="pending", delivered_at=None))
        source = shop.make()
        done = source.cancel_order(CancelRequest("key-1", "1001", reason="changed my mind"))
        assert isinstance(done, Cancelled)
        assert done.order.status is OrderStatus.CANCELLED
        assert source.load_order("1001") == done.order

    def test_the_same_request_again_has_the_same_outcome(self, shop: PlayedShop) -> None:
        shop.stock(order("1001", status="pending", delivered_at=None))
        source, request = shop.make(), CancelRequest("key-1", "1001")
        first = source.cancel_order(request)
        assert isinstance(first, Cancelled)
        assert source.cancel_order(request) == first

    def test_units_of_an_order_are_cancelled_or_left_to_people(self, shop: PlayedShop) -> None:
        kettles = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "20.00"}
        lamp = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "9.99"}
        shop.stock(order("1001", status="pending", delivered_at=None, items=[kettles, lamp]))
        source = shop.make()
        done = source.cancel_order(CancelRequest("key-1", "1001", (("K1", 1),)))
        found = source.load_order("1001")
        assert found is not None
        assert found.status is OrderStatus.PENDING
        if isinstance(done, Cancelled):
            assert (done.order, found.units) == (found, {"K1": 1, "L1": 1})
        else:
            assert isinstance(done, NotSupported)
            assert found.units == {"K1": 2, "L1": 1}

    def test_a_shipped_order_is_too_late(self, shop: PlayedShop) -> None:
        shop.stock(order("1001", status="shipped", delivered_at=None))
        source = shop.make()
        assert isinstance(source.cancel_order(CancelRequest("key-1", "1001")), TooLate)
        found = source.load_order("1001")
        assert found is not None
        assert found.status is OrderStatus.SHIPPED

    def test_what_is_cancelled_already_is_cancelled(self, shop: PlayedShop) -> None:
        """By a person of the shop, or by a request whose answer and key were lost."""
        shop.stock(order("1001", status="cancelled", delivered_at=None))
        done = shop.make().cancel_order(CancelRequest("key-1", "1001"))
        assert isinstance(done, Cancelled)
        assert done.order.status is OrderStatus.CANCELLED

    # --- another address ------------------------------------------------------------------------

    def test_an_address_is_changed_or_left_to_people(self, shop: PlayedShop) -> None:
        shop.stock(order("1001", status="pending", delivered_at=None))
        source = shop.make()
        before = source.load_order("1001")
        first = source.change_address("1001", NEW_ADDRESS)
        assert isinstance(first, AddressChanged | NotSupported)
        assert source.change_address("1001", NEW_ADDRESS) == first
        assert source.load_order("1001") == before

    @pytest.mark.parametrize("status", ["shipped", "cancelled"])
    def test_an_order_that_is_not_pending_keeps_its_address(
        self, shop: PlayedShop, status: str
    ) -> None:
        shop.stock(order("1001", status=status, delivered_at=None))
        outcome = shop.make().change_address("1001", NEW_ADDRESS)
        assert isinstance(outcome, TooLate | NotSupported)

    # --- what goes wrong ------------------------------------------------------------------------

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refused_key_is_for_an_operator(self, shop: PlayedShop, status: int) -> None:
        shop.faults.append(Answer(status))
        assert _problem_of(shop).operator

    def test_a_redirect_is_not_followed(self, shop: PlayedShop) -> None:
        shop.faults.append(Answer(302, headers={"Location": f"{shop.url}/elsewhere"}))
        assert _problem_of(shop).operator
        assert not any("elsewhere" in request.path for request in shop.requests)

    def test_a_rate_limit_says_how_long_to_wait(self, shop: PlayedShop) -> None:
        shop.faults.append(Answer(429, headers={"Retry-After": "7"}))
        problem = _problem_of(shop)
        assert (problem.retry_after_seconds, problem.operator) == (7, False)

    @pytest.mark.parametrize(
        "fault",
        [
            Answer(500),
            Answer(503, b"<html>down</html>"),
            Answer(200, b'{"orders": [{"order_id": "1001", "cust'),
            Answer(200, b"<html>a page of a proxy</html>"),
            Answer(200, b"[" * 90_000),
            Answer(200, b" " * (MOST_BYTES + 1)),
            Answer(200, b"[]"),
            Answer(200, b"null"),
            Answer(200),
        ],
        ids=["500", "503", "half", "html", "deep", "huge", "list", "null", "empty"],
    )
    def test_no_usable_answer_is_a_problem_and_the_next_one_is_taken(
        self, shop: PlayedShop, fault: Answer
    ) -> None:
        shop.stock(order("1001"))
        source = shop.make()
        shop.faults.append(fault)
        with pytest.raises(SourceProblem):
            source.find_orders(ADA)
        assert len(source.find_orders(ADA).orders) == 1

    def test_slow_bytes_end_at_the_deadline(self, shop: PlayedShop) -> None:
        with dripping_server() as url:
            began = time.monotonic()
            with pytest.raises(SourceProblem):
                shop.make(url).find_orders(ADA)
        assert time.monotonic() - began < DEADLINE_SECONDS * 2

    @pytest.mark.parametrize("seconds", [0.0, 0.3])
    def test_a_look_up_takes_no_more_than_its_time(self, shop: PlayedShop, seconds: float) -> None:
        shop.stock(order("1001"))
        source = shop.make()
        source.find_orders(ADA)
        shop.requests.clear()
        shop.be_slow(1.5)
        for look_up in (lambda: source.find_orders(ADA), lambda: source.load_order("1001")):
            began = time.monotonic()
            with limited(seconds), pytest.raises(OutOfTime) as problem:
                look_up()
            assert time.monotonic() - began < seconds + 0.7
            assert problem.value.not_done is (seconds == 0)
        assert len(shop.requests) == (2 if seconds else 0)

    def test_a_server_that_is_gone_is_a_problem(self, shop: PlayedShop) -> None:
        with dripping_server() as url:
            pass
        with pytest.raises(SourceProblem):
            shop.make(url).load_order("1001")

    def test_a_problem_names_neither_customer_nor_key(self, shop: PlayedShop) -> None:
        shop.make().find_orders(ADA)
        words = (ADA, *(_key_of(shop.requests[-1]) or "").split())
        assert len(words) > 1
        shop.faults.append(Answer(500, {"error": f"not {' '.join(words)}"}))
        told = str(_problem_of(shop))
        assert [word for word in words if word in told] == []


def _problem_of(shop: PlayedShop) -> SourceProblem:
    with pytest.raises(SourceProblem) as found:
        shop.make().find_orders(ADA)
    return found.value


def _key_of(request: Request) -> str | None:
    names = ("Authorization", "X-Shopify-Access-Token")
    return next((request.headers[name] for name in names if name in request.headers), None)


@contextmanager
def dripping_server() -> Iterator[str]:
    """Run a server that begins an answer and then sends a byte now and then, for ever."""
    ended = threading.Event()

    class Drip(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not ended.wait(0.05):
                self.request.sendall(b" ")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drip) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            ended.set()
            server.shutdown()
